"""Does the grid keep the engine busy? Ours, the bare engine and a naive loop on the same prompts, in one process.

* ours: questions x configurations through executor, meter, ledger and a new store.
* bare engine: the distinct requests of that grid, given to OpenVINO GenAI's own pipeline at once, nothing around it.
* one by one: `transformers.generate`, one call per request of the grid (equal requests too), measured on a sample.

    python -m benchmarks.grid_engine      # a few minutes on two cores
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import record
from benchmarks.workspace import ROOT
from luthier.context import spec_of
from luthier.evaluation.evaluate import grid_jobs
from luthier.executors.execute import execute
from luthier.harnesses.pool.configurations import select
from luthier.ledger.ledger import Ledger
from luthier.ledger.meter import Meter
from luthier.ledger.store import Store
from luthier.settings.load import load_params
from luthier.target import Completion, Failure, Request, Target
from luthier.targets import open_target
from luthier.targets.support.weights import prepare
from luthier.tasks import open_task


class Timed:
    """A target that notes what it was asked and how long it worked."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name, self.fingerprint = target.name, target.fingerprint
        self.seconds, self.requests = 0.0, list[Request]()

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Pass on and measure."""
        started = time.perf_counter()
        answers = self._target.complete(requests)
        self.seconds += time.perf_counter() - started
        self.requests += requests
        return answers

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Pass on."""
        return self._target.choice_logprobs(requests)

    def count_tokens(self, request: Request) -> int:
        """Pass on."""
        return self._target.count_tokens(request)

    def close(self) -> None:
        """Pass on."""
        self._target.close()


def bare_engine(requests: Sequence[Request], gguf: Path, batch: int) -> float:
    """Seconds that OpenVINO GenAI needs for these requests, given all at once."""
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    scheduler.max_num_seqs = batch
    scheduler.max_num_batched_tokens = 4096
    scheduler.cache_size = 2
    engine = genai.ContinuousBatchingPipeline(str(gguf), scheduler, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    prompts, settings = [], []
    for request in requests:
        config = genai.GenerationConfig()
        config.max_new_tokens, config.apply_chat_template = request.max_tokens, False
        config.eos_token_id = engine.get_tokenizer().get_eos_token_id()
        if request.stop:
            config.stop_strings = set(request.stop)
        prompts.append(_text(request, engine.get_tokenizer()))
        settings.append(config)
    engine.generate(prompts[:2], settings[:2])
    started = time.perf_counter()
    engine.generate(prompts, settings)
    return time.perf_counter() - started


def _text(request: Request, tokenizer: Any) -> str:
    if isinstance(request.prompt, str):
        return request.prompt
    rows = [{"role": message.role, "content": message.content} for message in request.prompt]
    text: str = tokenizer.apply_chat_template(rows, add_generation_prompt=True)
    return text


def one_by_one(requests: Sequence[Request], folder: Path) -> float:
    """Seconds that a loop over `transformers.generate` in bfloat16 needs for these requests."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    started = time.perf_counter()
    for request in requests:
        if isinstance(request.prompt, str):
            ids = tokenizer(request.prompt, return_tensors="pt", add_special_tokens=False)
        else:
            rows = [{"role": message.role, "content": message.content} for message in request.prompt]
            ids = tokenizer.apply_chat_template(rows, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        stop = {"stop_strings": list(request.stop), "tokenizer": tokenizer} if request.stop else {}
        model.generate(**ids, max_new_tokens=request.max_tokens, do_sample=False, **stop)
    return time.perf_counter() - started


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three sides and record three figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=34)
    parser.add_argument("--sample", type=int, default=40, help="requests of the one-by-one loop")
    arguments = parser.parse_args(argv)
    params = load_params(ROOT)
    task = open_task("mixed")
    questions = task.questions("train", arguments.questions, 991)
    jobs = grid_jobs(questions, select(params.profile.grid.configurations), params.ask.seed)
    spec = spec_of(params.profile.target)
    target = Timed(open_target(spec))
    target.complete([Request("warm up", 2)])
    target.seconds, target.requests = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.sqlite")
        meter = Meter(
            target, store, Ledger(store, run="benchmark"), role="target", account="data", method="", phase="grid"
        )
        started = time.perf_counter()
        executions = execute(jobs, task.score, meter, width=params.profile.grid.width)
        grid_seconds = time.perf_counter() - started
        store.close()
    target.close()
    prepared = prepare(ROOT / ".cache")
    distinct = target.requests
    engine_seconds = bare_engine(distinct, prepared.gguf, spec.batch)
    calls = sum(execution.usage.calls for execution in executions)
    step = max(1, len(distinct) // arguments.sample)
    sample = distinct[::step][: arguments.sample]
    loop_seconds = one_by_one(sample, prepared.hf) / len(sample) * calls
    n = len(distinct)
    record(
        "grid_vs_engine",
        round(engine_seconds / grid_seconds, 3),
        unit="throughput, ratio",
        n=n,
        ours=round(n / grid_seconds, 2),
        peer=round(n / engine_seconds, 2),
    )
    record(
        "grid_vs_one_by_one",
        round(loop_seconds / grid_seconds, 2),
        unit="speed-up, ratio",
        n=calls,
        ours=round(grid_seconds, 1),
        peer=round(loop_seconds, 1),
    )
    record(
        "ledger_share", round(1 - target.seconds / grid_seconds, 4), unit="share of wall time outside the engine", n=n
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
