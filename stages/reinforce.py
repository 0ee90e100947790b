"""Stage `reinforce`: let the fine-tuned generator explore, rewarded by what its harnesses do on the frozen target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from luthier.context import CACHE, StageContext
from luthier.execution import Execution
from luthier.executors.execute import Job
from luthier.files import digest_file, digest_text
from luthier.ledger.budget import Forecast
from luthier.method import Trains
from luthier.methods import having, mas_architect, settings_of
from luthier.question import Question, read_questions
from luthier.rewards.tiered import TieredReward
from luthier.settings.training import PRICE_FIELDS, GeneratorParams, ReinforceParams
from luthier.target import Usage
from luthier.training import checkpoint, policy_gradient
from luthier.training.forecast import WRITTEN, Outlook, count_tokens
from luthier.training.record import base_folder, progress_line
from luthier.training.resume import held
from stages.entry import Options, run_stage
from stages.places import QUESTIONS, SFT
from stages.places import REINFORCE as OUT


def work(context: StageContext, options: Options) -> None:
    """Write models/reinforce/<method>/."""
    settings = settings_of(context.params, context.method, "reinforce", ReinforceParams)
    seed, generator = context.params.ask.seed, settings_of(context.params, context.method, "generator", GeneratorParams)
    source = QUESTIONS / "train.jsonl"
    questions = {question.id: question for question in read_questions(source)}
    print(f"reinforce: {settings.steps} steps of {settings.questions} questions x {settings.samples} samples")
    if options.dry_run:
        print(forecast(context, list(questions.values())).render())
        return
    context.check_prices("target", "generator", "trained")
    base = SFT / context.method
    inputs = {"questions": digest_file(source), "base": checkpoint.digest(base), "target": context.target.fingerprint}
    method = having(context.method, Trains)
    everything = context.params.section(context.method, method.section)
    facts = everything.model_dump_json(exclude={"generator": set(PRICE_FIELDS)})  # a price decides no result
    identity = digest_text(f"reinforce {inputs} {facts} {seed}")[:16]
    scratch = CACHE / "training" / f"reinforce-{identity}"
    record = {"phase": "reinforce", "method": context.method, "seed": seed, "parent": inputs["base"], "inputs": inputs}

    def run(jobs: Sequence[Job], scope: str) -> list[Execution]:
        meter = context.meter("target", "train", split="train", scope=scope)
        return context.execute(jobs, meter, "reinforce", quiet=True)

    with held(scratch):
        policy_gradient.train(
            {key: mas_architect.generator_prompt(question.text) for key, question in questions.items()},
            base,
            OUT / context.method,
            settings,
            max_tokens=generator.max_tokens,
            seed=seed,
            judge=mas_architect.judge(
                questions, run, context.task.score, context.limits, TieredReward(settings.valid_but_wrong), seed
            ),
            record=record,
            scratch=scratch,
            bill=context.bill(identity, scratch),
            report=progress_line("reinforce"),
            stop=context.stop,
        )


def forecast(context: StageContext, questions: Sequence[Question]) -> Forecast:
    """What choosing questions and all steps cost at most: no group flat, every harness as long as it may be."""
    settings = settings_of(context.params, context.method, "reinforce", ReinforceParams)
    longest = settings_of(context.params, context.method, "generator", GeneratorParams).max_tokens
    base = base_folder(settings_of(context.params, context.method, "generator", GeneratorParams).model, CACHE)
    prompts = count_tokens(base, (mas_architect.generator_prompt(question.text) for question in questions))
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
