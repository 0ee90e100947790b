"""Stage `sft`: fine-tune the generator on the teacher rows of a method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.files import digest_file, read_rows_as
from luthier.ledger.budget import Forecast
from luthier.methods import settings_of
from luthier.settings.training import SftParams
from luthier.training import checkpoint, sft
from luthier.training.forecast import Outlook, count_tokens, update_usage
from stages.entry import Options, run_stage
from stages.places import SFT as OUT
from stages.places import TEACH
from stages.trained import start_of, train_phase


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
    base = start_of(context)
    inputs = {"rows": digest_file(source), "base": checkpoint.digest(base)}
    train = partial(sft.train, rows, base, OUT / context.method, settings)
    train_phase(context, train, inputs, settings.model_dump_json())


def forecast(context: StageContext, rows: Sequence[sft.SftRow], epochs: float) -> Forecast:
    """What training on these rows costs."""
    base = start_of(context)
    prompts = count_tokens(base, (row.prompt for row in rows))
    completions = count_tokens(base, (row.completion for row in rows))
    usage = update_usage([(p, c + 1) for p, c in zip(prompts, completions, strict=True)], epochs)
    return Outlook(context.ledger, "sft").training("update", usage)


if __name__ == "__main__":
    raise SystemExit(run_stage("sft", work, per_method=True, trains=True))
