"""Stage `dpo`: let the generator prefer the better text of each pair of a method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from luthier.context import StageContext
from luthier.errors import InputError
from luthier.files import digest_file, read_rows_as
from luthier.ledger.budget import Forecast
from luthier.methods import settings_of
from luthier.settings.training import DpoParams
from luthier.target import Usage
from luthier.training import checkpoint, dpo
from luthier.training.dpo import PreferenceRow
from luthier.training.forecast import Outlook, count_tokens, update_usage
from stages.entry import Options, run_stage
from stages.places import DPO as OUT
from stages.places import PREFER
from stages.trained import start_of, train_phase


def work(context: StageContext, options: Options) -> None:
    """Write models/dpo/<method>/."""
    settings = settings_of(context.params, context.method, "dpo", DpoParams)
    source = PREFER / context.method / "rows.jsonl"
    rows = list(read_rows_as(source, lambda row: PreferenceRow(row["prompt"], row["chosen"], row["rejected"])))
    if not rows:
        raise InputError("no preference rows", where=str(source), fix="run stage prefer with more questions")
    print(f"dpo: {len(rows)} pairs, {settings.epochs:g} epochs, batch {settings.batch}, no target calls")
    base = start_of(context)
    if options.dry_run:
        print(forecast(context, rows, base, settings.epochs).render())
        return
    context.check_prices("trained", "generator")
    inputs = {"rows": digest_file(source), "base": checkpoint.digest(base)}
    train = partial(dpo.train, rows, base, OUT / context.method, settings)
    train_phase(context, train, inputs, settings.model_dump_json())


def forecast(context: StageContext, rows: Sequence[PreferenceRow], base: Path, epochs: float) -> Forecast:
    """What training on these pairs costs: both texts of each go through the model and through the reference."""
    prompts = count_tokens(base, (row.prompt for row in rows for _ in range(2)))
    texts = count_tokens(base, (text for row in rows for text in (row.chosen, row.rejected)))
    usage = update_usage([(read, text + 1) for read, text in zip(prompts, texts, strict=True)], epochs)
    outlook = Outlook(context.ledger, "dpo")
    read = Usage(usage.calls, usage.prompt_tokens + usage.completion_tokens)
    return outlook.training("update", usage) + outlook.training("reference", read)


if __name__ == "__main__":
    raise SystemExit(run_stage("dpo", work, per_method=True, trains=True))
