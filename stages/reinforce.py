"""Stage `reinforce`: let the fine-tuned generator explore, rewarded by what its harnesses do on the frozen target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from luthier.context import CACHE, StageContext
from luthier.files import digest_file
from luthier.ledger.budget import Forecast
from luthier.method import Reinforces
from luthier.methods import generator_of, having, settings_of
from luthier.question import Question, read_questions
from luthier.settings.training import PRICE_FIELDS, ReinforceParams
from luthier.target import Usage
from luthier.training import checkpoint, policy_gradient
from luthier.training.forecast import WRITTEN, Outlook, count_tokens
from luthier.training.record import base_folder
from stages.entry import Options, run_stage
from stages.places import QUESTIONS
from stages.places import REINFORCE as OUT
from stages.trained import start_of, train_phase


def work(context: StageContext, options: Options) -> None:
    """Write models/reinforce/<method>/."""
    method = having(context.method, Reinforces)
    settings = settings_of(context.params, context.method, "reinforce", ReinforceParams)
    source = QUESTIONS / "train.jsonl"
    questions = {question.id: question for question in read_questions(source)}
    print(f"reinforce: {settings.steps} steps of {settings.questions} questions x {settings.samples} samples")
    if options.dry_run:
        print(forecast(context, list(questions.values())).render())
        return
    context.check_prices("target", "generator", "trained")
    base = start_of(context)
    inputs = {"questions": digest_file(source), "base": checkpoint.digest(base), "target": context.target.fingerprint}
    everything = context.params.section(context.method, method.section)
    facts = everything.model_dump_json(exclude={"generator": set(PRICE_FIELDS)})  # a price decides no result
    train = partial(
        policy_gradient.train,
        {key: method.prompt(question.text) for key, question in questions.items()},
        base,
        OUT / context.method,
        settings,
        max_tokens=generator_of(context).max_tokens,
        judge=method.judge(context, questions),
    )
    train_phase(context, train, inputs, facts)


def forecast(context: StageContext, questions: Sequence[Question]) -> Forecast:
    """What choosing questions and all steps cost at most: no group flat, every harness as long as it may be."""
    settings = settings_of(context.params, context.method, "reinforce", ReinforceParams)
    method, generator = having(context.method, Reinforces), generator_of(context)
    longest, base = generator.max_tokens, base_folder(generator.model, CACHE)
    prompts = count_tokens(base, (method.prompt(question.text) for question in questions))
    mean = sum(prompts) / max(len(prompts), 1)
    asked = settings.steps * settings.questions
    trained, probed = asked * settings.samples, len(questions) * settings.probe_samples
    read = round(mean * asked) + (sum(prompts) if settings.probe_samples else 0)
    outlook = Outlook(context.ledger, "reinforce")
    drawn = outlook.training("draw", Usage(trained + probed, read, (trained + probed) * longest))
    updated = outlook.training("update", Usage(trained, round(mean * trained), trained * longest))
    total = drawn + updated + outlook.executions(trained + probed, context.limits)
    if settings.kl:
        total += outlook.training("reference", Usage(trained, round(mean * trained) + trained * longest))
    return replace(total, notes=(WRITTEN, *total.notes))


if __name__ == "__main__":
    raise SystemExit(run_stage("reinforce", work, per_method=True, trains=True))
