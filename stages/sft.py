"""Stage `sft`: fine-tune the generator on the teacher rows of a method."""

from __future__ import annotations

from collections.abc import Sequence

from luthier.context import CACHE, StageContext
from luthier.errors import InputError
from luthier.files import digest_file, digest_text, read_rows_as
from luthier.ledger.budget import Forecast
from luthier.methods import settings_of
from luthier.settings.training import GeneratorParams, SftParams
from luthier.training import checkpoint, sft
from luthier.training.forecast import Outlook, count_tokens, update_usage
from luthier.training.record import base_folder, progress_line
from luthier.training.resume import held
from stages.entry import Options, run_stage
from stages.places import SFT as OUT
from stages.places import TEACH


def work(context: StageContext, options: Options) -> None:
    """Write models/sft/<method>/."""
    settings = settings_of(context.params, context.method, "sft", SftParams)
    source = TEACH / context.method / "rows.jsonl"
    rows = list(read_rows_as(source, lambda row: sft.SftRow(row["prompt"], row["completion"])))
    if not rows:
        raise InputError(
            "no teacher rows", where=str(source), fix="raise grid.train or teach.variations in the profile"
        )
    print(f"sft: {len(rows)} rows, {settings.epochs:g} epochs, batch {settings.batch}, no target calls")
    if options.dry_run:
        print(forecast(context, rows, settings.epochs).render())
        return
    context.check_prices("trained")
    base = base_folder(settings_of(context.params, context.method, "generator", GeneratorParams).model, CACHE)
    seed = context.params.ask.seed
    inputs = {"rows": digest_file(source), "base": checkpoint.digest(base)}
    identity = digest_text(f"sft {inputs} {settings.model_dump_json()} {seed}")[:16]
    scratch = CACHE / "training" / f"sft-{identity}"
    record = {"phase": "sft", "method": context.method, "seed": seed, "parent": inputs["base"], "inputs": inputs}
    with held(scratch):
        sft.train(
            rows,
            base,
            OUT / context.method,
            settings,
            seed=seed,
            record=record,
            scratch=scratch,
            bill=context.bill(identity, scratch),
            report=progress_line("sft"),
            stop=context.stop,
        )


def forecast(context: StageContext, rows: Sequence[sft.SftRow], epochs: float) -> Forecast:
    """What training on these rows costs."""
    base = base_folder(settings_of(context.params, context.method, "generator", GeneratorParams).model, CACHE)
    prompts = count_tokens(base, (row.prompt for row in rows))
    completions = count_tokens(base, (row.completion for row in rows))
    usage = update_usage([(p, c + 1) for p, c in zip(prompts, completions, strict=True)], epochs)
    return Outlook(context.ledger, "sft").training("update", usage)


if __name__ == "__main__":
    raise SystemExit(run_stage("sft", work, per_method=True, trains=True))
