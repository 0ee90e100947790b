"""Every reader of a file or text gets hostile variants of a good one: it reads them, or says one clear error."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.serve_schedules import read_deployments
from luthier.ask import questions_in
from luthier.errors import InputError, LuthierError
from luthier.evaluation.method_run import (
    BudgetResult,
    MethodRun,
    Point,
    Spend,
    TotalBudget,
    read_contender,
    write_contender,
)
from luthier.execution import Execution, Step
from luthier.files import read_rows, write_rows
from luthier.harnesses import parse
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.json_form import from_json, to_json
from luthier.harnesses.graph.presets import read_presets
from luthier.harnesses.pool.configurations import parse_pool
from luthier.harnesses.program.dspy_bridge import with_dspy_state
from luthier.harnesses.program.harness import ProgramHarness
from luthier.ledger.budget import Amount, Price
from luthier.lineage import read_scores
from luthier.lineage.checkpoint import read_training
from luthier.lineage.sources import read_params, read_stages, running_stage
from luthier.question import Question, read_questions, write_questions
from luthier.reading import MAX_DEPTH, parse_json, parse_yaml, read_text
from luthier.search.log import SearchLog
from luthier.settings.load import load_params
from luthier.target import Usage
from luthier.tasks import open_task
from luthier.training.checkpoint import read_record

ROOT = Path(__file__).parents[2]
PROGRAM = """wiring: |
  draft = solve(question)
  answer = judge(question, draft)
modules:
  solve:
    inputs: [question]
    outputs: [draft]
    instruction: Solve it.
    demos:
      - question: What is 2 + 3?
        draft: "5"
  judge:
    inputs: [question, draft]
    outputs: [answer]
    max_tokens: 80
    temperature: 0.5
"""
GRAPH = """state total: int sum
state note: dict = {"a": [1, 2.5, "x"]}
limits steps=12 calls=6
a = drafted(question)
  if a == "x" and visits.n1 < 3 -> n1 else n2
answer = copy(a)

impl drafted:
  style: raw
  ask: "Draft {question}"
  stop: ["\\n"]
  max_tokens: 8
"""
HOSTILE = {
    "half a character": '"\\ud800"',
    "5,000 digits": "1" * 5000,
    "-5,000 digits": "-" + "1" * 5000,
    "lists in lists": "[" * 1500 + "]" * 1500,
    "open lists": "[" * 1500,
    "objects in objects": '{"a":' * 1500 + "1" + "}" * 1500,
    "many lists in lists": "[" * 200 + "]" * 200,
    "not a number": "NaN",
    "infinite": "Infinity",
    "large": "1e999",
    "YAML's infinity": ".inf",
    "no date": "2001-99-99",
    "no hexadecimal number": "0x_",
    "no truth": "!!bool abc",
    "no integer": "!!int abc",
    "no bytes": "!!binary é",
    "object of Python": "!!python/object/apply:os.system ['true']",
    "itself": "&a [*a]",
    "nothing": "",
    "null": "null",
    "zero byte": "\0",
    "colon": ": : :",
    "mark of byte order": "\ufeff{}",
}
VALUES: list[Any] = [
    None,
    True,
    -1,
    10**30,
    0.5,
    "",
    "\ud800",
    "x",
    [],
    {},
    [None],
    {"": 1},
    [[[]]],
    ["\udc80"],
    {"a": {}},
]


def broken_bytes(good: bytes, rng: random.Random) -> Iterator[bytes]:
    yield from (text.encode() for text in HOSTILE.values())
    yield from (good + text.encode() for text in HOSTILE.values())
    for text in HOSTILE.values():  # in place of one word
        words = [place for place in range(1, len(good)) if good[place - 1] in b" :,[" and good[place] not in b" \n"]
        start = rng.choice(words or [0])
        end = next((place for place in range(start, len(good)) if good[place] in b",]}\n"), len(good))
        yield good[:start] + text.encode() + good[end:]
    for _ in range(12):
        place = rng.randrange(len(good))
        yield good[:place] + bytes([rng.choice((0, 0x80, 0xFF, 0xED, 0xC0))]) + good[place + 1 :]
        yield good[:place]


def broken_values(good: Any, rng: random.Random) -> Iterator[Any]:
    """The value with one part after the other replaced by something of another kind, or left out."""
    yield from VALUES

    def paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            if isinstance(item, dict | list):
                yield from paths(item, (*path, key))

    for path in list(paths(good, ())):
        for value in [*rng.sample(VALUES, 5), ...]:
            changed = copy.deepcopy(good)
            part = changed
            for key in path[:-1]:
                part = part[key]
            if value is ...:
                del part[path[-1]]
            else:
                part[path[-1]] = value
            yield changed


def attempt(action: Callable[[], Any], shown: object) -> None:
    """Run a reader; only an error of ours may come out, and it says what to do."""
    try:
        action()
    except LuthierError as error:
        assert error.fix, (shown, error)  # noqa: PT017
        assert error.problem.isprintable() or "\n" in error.problem, (shown, error)  # noqa: PT017
        str(error).encode()
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} for {shown!r:.300}") from error


# --- texts -----------------------------------------------------------------------------------------------------


def digest(kind: str) -> Callable[[str], object]:
    def read(text: str) -> None:
        harness = parse(kind, text)
        assert len(harness.digest) == 64
        assert parse(kind, harness.text).text == harness.text

    return read


def presets_of(text: str, folder: Path) -> None:
    (folder / "presets.yaml").write_text(text, errors="surrogatepass")
    read_presets(folder / "presets.yaml")


TEXTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "prompt": ("# raw max_tokens=32 temperature=0.5\nSort these.\n{question}", digest("prompt")),
    "graph": (GRAPH, digest("graph")),
    "program": (PROGRAM, digest("program")),
    "pool": (f"## one | direct | ours | calls 1-3 | a line\n{GRAPH}\n", parse_pool),
}


@pytest.mark.parametrize("name", TEXTS)
def test_harness_texts(name: str) -> None:
    good, read = TEXTS[name]
    read(good)
    rng = random.Random(name)
    for data in broken_bytes(good.encode(), rng):
        text = data.decode(errors="surrogateescape")
        attempt(lambda text=text: read(text), text)
    for piece in ("\ud800", "\udcff", "\0", "\u2028", "\ufeff"):
        for place in (0, len(good) // 2, len(good)):
            text = good[:place] + piece + good[place:]
            attempt(lambda text=text: read(text), text)


def test_a_prompt_with_half_a_character_is_refused() -> None:
    with pytest.raises(LuthierError, match="half a character"):
        parse("prompt", "{question}\ud800")


# --- values ----------------------------------------------------------------------------------------------------


STATE = {
    "solve": {"signature": {"instructions": "Do."}, "demos": [{"question": "q", "draft": "d", "augmented": True}]},
    "judge.predict": {"signature": {"instructions": "Say."}, "demos": []},
    "metadata": {"dependency_versions": {}},
}


@pytest.mark.parametrize(
    "state", [None, [], {}, {"solve": None}, {**STATE, "solve": {**STATE["solve"], "demos": None}}]
)
def test_a_state_of_dspy_of_another_shape_is_named(state: Any) -> None:
    with pytest.raises(InputError, match="DSPy"):
        with_dspy_state(ProgramHarness.parse(PROGRAM), state)


def test_states_of_dspy() -> None:
    program = ProgramHarness.parse(PROGRAM)
    assert with_dspy_state(program, STATE).modules["solve"].instruction == "Do."
    for state in broken_values(STATE, random.Random(1)):
        attempt(lambda state=state: with_dspy_state(program, state).digest, state)


def test_graphs_as_json() -> None:
    good = to_json(GraphHarness.parse(GRAPH))
    assert from_json(good).text == GraphHarness.parse(GRAPH).text
    for value in broken_values(good, random.Random(2)):
        attempt(lambda value=value: from_json(value).digest, value)
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    for value in (deep, {"a": deep}, float("nan"), float("inf"), [10**5000]):
        changed = copy.deepcopy(good)
        changed["state"]["note"]["init"] = value
        attempt(lambda changed=changed: from_json(changed).digest, "a state")


# --- files -----------------------------------------------------------------------------------------------------

QUESTION = Question.make(
    task="t", text="one?", reference="1", split="train", metadata={"choices": ["a"], "_n": {"b": 1}}
)
ROW = {"question": "What is 1 + 1?", "answer": "It is 2.\n#### 2"}
AMOUNT = {
    "rollouts": 1,
    "calls": 2,
    "prompt_tokens": 3,
    "completion_tokens": 1,
    "seconds": 0.5,
    "picodollars": None,
}
BENCHMARKS: dict[str, tuple[str, Any]] = {
    "gsm8k": ("train.jsonl", ROW),
    "bbh": ("navigate.json", {"examples": [{"input": "Turn. Options:\n- Yes\n- No", "target": "Yes"}]}),
    "mmlu": ("anatomy_test.csv", None),
    "sst2": ("train.tsv", None),
    "hotpotqa": (
        "train.json",
        [
            {
                "_id": "1",
                "question": "Who?",
                "answer": "Ann",
                "context": [["T", ["S one.", "S two."]]],
                "supporting_facts": [["T", 0]],
                "type": "bridge",
                "level": "easy",
            }
        ],
    ),
    "math": ("test/algebra/1.json", {"problem": "2+2?", "solution": "It is $\\boxed{4}$.", "level": "1", "type": "A"}),
    "humaneval": (
        "HumanEval.jsonl",
        {
            "task_id": "HumanEval/0",
            "prompt": "def f(x):\n    ",
            "entry_point": "f",
            "canonical_solution": "return x",
            "test": "def check(candidate):\n    assert candidate(1) == 1\n",
        },
    ),
}
TABLES = {"mmlu": "What?,one,two,three,four,B\n", "sst2": "good film .\t1\nbad film .\t0\n"}


LOCK = """schema: '2.0'
stages:
  questions:
    cmd: python -m stages.questions
    deps:
    - path: stages/questions.py
      md5: a1ade54cb6c136c73040637ba42b797c
      size: 2686
    outs:
    - path: data/questions
      md5: 2bade54cb6c136c73040637ba42b797c.dir
      nfiles: 3
"""
PIPELINE = """stages:
  grid:
    cmd: python -m stages.grid
    matrix:
      method: ${methods}
    deps: [data/questions, "stages/${item.method}.py"]
    outs:
      - data/grid
"""
STAGE = "grid@mas_architect"
SCHEDULES = """deployments:
  - name: nightly
    entrypoint: flows/rebuild.py:rebuild
    schedules: [{cron: "0 3 * * *", timezone: UTC}]
    parameters: {target: report}
    tags: [a]
"""


def project(folder: Path) -> Path:
    (folder / "profiles").mkdir()
    (folder / "profiles" / "smoke.yaml").write_bytes((ROOT / "profiles" / "smoke.yaml").read_bytes())
    (folder / "params.yaml").write_text("profile: smoke\nseed: 17\nmethods: [mas_architect]\nbudget: {price: 1.5}\n")
    for name, text in (("dvc.lock", LOCK), ("dvc.yaml", PIPELINE), ("prefect.yaml", SCHEDULES)):
        (folder / name).write_text(text)
    return folder


def log_of(folder: Path) -> Path:
    row = {"step": 0, "event": "start", "candidate": "c", "phase": "p", "outcome": "o", "detail": {"a": [1]}}
    write_rows(folder / "log.jsonl", [{**row, "best": 0.5, "best_candidate": "c", "spent": AMOUNT}])
    return folder / "log.jsonl"


def contender_of(folder: Path) -> Path:
    amount, usage = Amount(**AMOUNT), Usage(1, 5, 1, 0.25)
    execution = Execution("q1", "h", "graph", "own", 3, "ok", "4", trace=(Step("n", "llm", {}, "4"),))
    contender = MethodRun(
        **dict.fromkeys(("method", "label", "task", "target", "home", "trained", "frozen", "scope"), "x"),
        kind="learned",
        seed=3,
        budget=TotalBudget("small", "tokens", 100),
        spent=(Spend("train", "generator", amount, Amount()),),
        curve=(Point(amount, 0.5, "sft", "test"),),
        trials=(BudgetResult("q1", "f", True, "answer = copy(question)", usage, execution),),
        target_price=Price(1.0, 2.0),
    )
    return write_contender(folder, contender)


def record_of(folder: Path) -> Path:
    row = {"settings": {"a": 1}, "seed": 1, "parent": "", "inputs": {"a": "b"}, "curve": [{"loss": 0.5}]}
    (folder / "training.json").write_text(json.dumps(row))
    return folder / "training.json"


def scores_of(folder: Path) -> Path:
    pooled = {"pooled": {"mean": 0.5, "low": 0.1, "high": 0.9}}
    splits = ("train", "validation", "test")
    (folder / "scores.json").write_text(json.dumps({s: {"sft": pooled, "reinforce": pooled} for s in splits}))
    return folder / "scores.json"


def rows_of(folder: Path) -> Path:
    write_questions(folder / "q.jsonl", [QUESTION])
    return folder / "q.jsonl"


FILES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "rows": (rows_of, lambda path: list(read_rows(path))),
    "questions": (rows_of, lambda path: [question.to_row() for question in read_questions(path)]),
    "questions asked": (rows_of, questions_in),
    "params": (lambda folder: project(folder) / "params.yaml", lambda path: load_params(path.parent)),
    "profile": (lambda folder: project(folder) / "profiles/smoke.yaml", lambda path: load_params(path.parents[1])),
    "params as text": (lambda folder: project(folder) / "params.yaml", lambda path: read_params(path.parent)),
    "lock of DVC": (lambda folder: project(folder) / "dvc.lock", lambda path: read_stages(path.parent)),
    "pipeline": (
        lambda folder: project(folder) / "dvc.yaml",
        lambda path: running_stage(path.parent, "grid@mas_architect"),
    ),
    "log of a search": (log_of, SearchLog),
    "contender": (contender_of, read_contender),
    "record": (record_of, lambda path: read_record(path.parent)),
    "training": (record_of, lambda path: read_training(path.parent)),
    "scores": (scores_of, read_scores),
    "schedules": (lambda folder: project(folder) / "prefect.yaml", read_deployments),
    "presets": (lambda folder: folder / "presets.yaml", read_presets),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    make, read = FILES[name]
    path = make(tmp_path)
    if name == "presets":
        path.write_text('mine:\n  about: "x"\n  reads: [question]\n  ask: "Say {question}"\n  max_tokens: 8\n')
    good = path.read_bytes()
    read(path)
    rng = random.Random(name)
    for data in broken_bytes(good, rng):
        path.write_bytes(data)
        attempt(lambda: read(path), data)
    if path.suffix in (".json", ".jsonl"):
        for value in broken_values(json.loads(good), rng):
            path.write_text(json.dumps(value) + "\n")
            attempt(lambda: read(path), value)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_files_of_benchmarks(name: str, tmp_path: Path) -> None:
    file, good = BENCHMARKS[name]
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)

    def read() -> None:
        task = open_task(name, str(tmp_path))
        for split in ("train", "validation", "test"):
            try:
                questions = task.questions(split, 1, 7)
            except InputError:
                continue
            write_questions(tmp_path.with_name("written.jsonl"), questions)

    rng = random.Random(name)
    text = (TABLES[name] if good is None else json.dumps(good)).encode()
    for data in [text, *broken_bytes(text, rng)]:
        path.write_bytes(data)
        attempt(read, data)
    for value in broken_values(good, rng) if good is not None else ():
        path.write_text(json.dumps(value) + "\n")
        attempt(read, value)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(ROW).encode() * 50)
    path = tmp_path / "train.jsonl.gz"
    rng = random.Random(5)
    refused = 0
    for _ in range(60):
        place = rng.randrange(len(whole))
        path.write_bytes(rng.choice((whole[:place], whole[:place] + b"\x7e" + whole[place + 1 :])))
        try:
            read_text(path, fix="fetch it again")
        except InputError as error:
            refused += 1
            assert "cannot read the file" in error.problem  # noqa: PT017
    assert refused > 30


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udc00": 1}', "[NaN]", "[1e999]", "[" * 65 + "1" + "]" * 65])
def test_strict_json_refuses_what_others_choke_on(text: str) -> None:
    parse_json(text, where="w", fix="f")
    with pytest.raises(InputError, match=r"^w: .*Fix: f"):
        parse_json(text, where="w", fix="f", strict=True)


def test_strict_json_lets_the_rest_through() -> None:
    text = '{"a": [1, 2.5, null, "\\ud83d\\ude00"], "b": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    assert parse_json(text, where="w", fix="f", strict=True)["a"][3] == "😀"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_yaml(text: str) -> None:
    attempt(lambda: parse_yaml(f"a:\n  - {text}", where="w", fix="f"), text)
