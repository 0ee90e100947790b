"""What store, ledger and waves cost per call: `python tests/luthier/measure_overhead.py`.

Not a test: it asserts nothing about time. The scripted target answers at once, so what is left is ours.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from luthier.executors.execute import Job, execute
from luthier.harnesses import parse
from luthier.ledger.ledger import Budget, Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.question import Question
from luthier.target import Request
from luthier.targets.scripted import ScriptedTarget
from luthier.task import Score


def measure(count: int = 4000) -> dict[str, float]:
    """Milliseconds per call: bare target, meter (cold, warm), whole executions (cold, stored)."""
    requests = [Request(f"question number {number} with some words around it") for number in range(count)]
    prompt = parse("prompt", "Say {question}")
    jobs = [Job(prompt, Question.make(task="t", text=r.prompt, reference="", split="train")) for r in requests]
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.db")

        def meter(run: str) -> Meter:
            ledger = Ledger(store, Budget(calls=10 * count, prompt_tokens=10**9), run=run)
            target = ScriptedTarget(lambda request: "an answer")
            return Meter(target, store, ledger, role="target", account="data", method="m", phase="p")

        def timed(name: str, work: Callable[[], object]) -> None:
            start = time.perf_counter()
            work()
            times[name] = round((time.perf_counter() - start) / count * 1000, 4)

        timed("bare target", lambda: ScriptedTarget(lambda request: "an answer").complete(requests))
        timed("meter, cold", lambda: meter("a").complete(requests))
        timed("meter, stored answers", lambda: meter("b").complete(requests))
        timed("execute, cold", lambda: execute(jobs, lambda q, a: Score(1.0), meter("c"), width=512))
        timed("execute, stored executions", lambda: execute(jobs, lambda q, a: Score(1.0), meter("d"), width=512))
        timed("execute, same run again", lambda: execute(jobs, lambda q, a: Score(1.0), meter("d"), width=512))
    return times


if __name__ == "__main__":
    for name, milliseconds in measure().items():
        print(f"{name:<28} {milliseconds:8.4f} ms per call")
