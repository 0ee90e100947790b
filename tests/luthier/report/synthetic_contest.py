"""A contest as it would come out of the stages: two learned methods, three searches and two fixed contenders."""

import random

from luthier.evaluation.method_run import BudgetResult, MethodRun, Point, Spend, TotalBudget
from luthier.execution import Execution, Step
from luthier.ledger.budget import Amount
from luthier.question import Question
from luthier.target import Usage

FAMILIES = ("chain_sum", "gcd", "letter_counting", "ransom_note", "spell_backward", "word_sorting")
HELD_OUT = ("ransom_note", "word_sorting")
OWN, SECOND = "openvino-bf16-6e3019dafc6a3fce", "openvino-int8-02c4b0aa9d1e77f3"
SCOPE = "instructions + demonstrations of solve, check; proposers read: text"
HOSTILE = "</script><script>document.title='broken'</script>"
#           key             label            kind       skill  spend      generator, target tokens a use
METHODS = (
    ("mas_architect", "MAS-Architect", "learned", 0.72, 760_000, 48, 130),
    ("mas_gpt", "MAS-GPT", "learned", 0.61, 420_000, 60, 210),
    ("gepa", "GEPA", "searched", 0.66, 790_000, 0, 395),
    ("mipro", "MIPROv2", "searched", 0.58, 680_000, 0, 880),
    ("textgrad", "TextGrad", "searched", 0.41, 520_000, 0, 150),
    ("target_alone", "target alone", "fixed", 0.14, 0, 0, 72),
    ("best_fixed", "best fixed", "fixed", 0.30, 0, 0, 190),
)


def questions(size=60, task="mixed"):
    made = []
    for index in range(size):
        family = FAMILIES[index % len(FAMILIES)]
        text = f"Number {index} of {family}: what is the answer to case {index * 37 % 101}?"
        made.append(
            Question.make(
                task=task,
                text=HOSTILE + text if index == 7 else text,
                reference=str(index),
                split="test",
                family=family,
            )
        )
    return made


def contest(seeds=(17, 18, 19), budget=("standard", 800_000), task="mixed", size=60, transfer=True):
    asked = questions(size, task)
    runs = []
    for method in METHODS:
        for seed in seeds if method[2] != "fixed" else seeds[:1]:
            runs.append(run(method, seed, budget, task, asked, OWN))
            if transfer and method[0] in ("mas_architect", "gepa"):
                runs.append(run(method, seed, budget, task, asked, SECOND))
    return runs, asked


def run(method, seed, budget, task, asked, target):
    key, label, kind, skill, spend, generator, used = method
    rng = random.Random(f"{key}{seed}{target}{task}{budget}")
    share = min(1.0, budget[1] / 800_000)
    spend = int(spend * share * rng.uniform(0.94, 1.0))
    trials = []
    for place, question in enumerate(asked):
        easy = random.Random(f"{question.id}").uniform(-0.3, 0.3)
        held_out = kind == "learned" and question.family in HELD_OUT
        chance = skill * (0.7 + 0.3 * share) + easy - (0.18 if held_out else 0) - (0.1 if target == SECOND else 0)
        trials.append(trial(question, rng, rng.random() < chance, kind, held_out, generator, used, target, seed, place))
    allowance = TotalBudget(*(budget[0], "tokens", budget[1])) if kind != "fixed" else None
    return MethodRun(
        method=key,
        label=label,
        kind=kind,
        task=task,
        target=target,
        home=OWN,
        seed=seed,
        budget=allowance,
        trained="the generator that writes the graph (134 M weights)" if kind == "learned" else "nothing",
        frozen="the target that executes the harness",
        scope=SCOPE if kind != "fixed" else "nothing",
        spent=spent(kind, spend),
        curve=curve(kind, skill, spend, rng),
        trials=tuple(trials),
    )


def spent(kind, spend):
    if kind == "fixed":
        return ()
    parts = (
        (("data", "target", 0.3), ("train", "generator", 0.5), ("train", "target", 0.2))
        if kind == "learned"
        else (("search", "proposer", 0.25), ("search", "target", 0.75))
    )
    amounts = [
        (
            a,
            r,
            Amount(int(spend * p / 400), int(spend * p / 120), int(spend * p * 0.8), int(spend * p * 0.2), None, None),
        )
        for a, r, p in parts
    ]
    test = Amount(60, 90, 9000, 2000, None, None)
    rows = [Spend(account, role, amount, amount) for account, role, amount in amounts]
    return (*rows, Spend("test", "target", test, test))


def curve(kind, skill, spend, rng):
    if kind == "fixed":
        return ()
    shares = (0.35, 0.7, 0.85, 0.97) if kind == "learned" else (0.03, 0.1, 0.2, 0.35, 0.5, 0.62, 0.9)
    best, points = 0.0, []
    for share in shares:
        best = max(best, skill * (1 - 0.75 * 2.718 ** (-4 * share)) + rng.uniform(-0.04, 0.03))
        points.append(Point(Amount(prompt_tokens=int(spend * share)), best, f"step {share}"))
    return tuple(points)


def trial(question, rng, right, kind, held_out, generator, used, target, seed, place):
    outcome = "ok" if right or rng.random() < 0.85 else rng.choice(["noop", "incomplete", "invalid"])
    tokens = int(used * rng.uniform(0.7, 1.4))
    usage = Usage(2, int(tokens * 0.8), tokens - int(tokens * 0.8), 0.02)
    harness = f"draft = solve(question)\nanswer = {'check(draft)' if kind != 'fixed' else 'copy(draft)'}"
    if kind == "learned":
        harness += f"\n# written for {question.family}"
    answer = question.reference if right else f"not {place}"
    trace = (
        Step("n1", "llm", {"question": question.text}, f"I think it is {answer}.", usage),
        Step("n2", "tool", {"draft": f"I think it is {answer}."}, answer if outcome == "ok" else "", Usage()),
    )
    execution = Execution(
        question.id,
        "d" * 64,
        "graph",
        target,
        seed,
        outcome,
        answer if outcome == "ok" else "",
        float(right),
        "Correct." if right else f"Expected {question.reference!r}.",
        "" if outcome == "ok" else f"{outcome}: stopped",
        trace if outcome != "invalid" else (),
        usage,
    )
    written = Usage(1, generator - 20, 20, 0.01) if generator else Usage()
    return BudgetResult(question.id, question.family, held_out, harness, written, execution)
