"""ZeRO-3 for real, on the CPU over gloo: what is saved and what the sampler draws from are whole weights.

python -m venv V; DS_BUILD_OPS=0 V/bin/pip install deepspeed; V/bin/python -m pytest tests/luthier/training/test_zero.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from luthier.files import write_json
from luthier.training import checkpoint
from luthier.training.checkpoint import read_record
from tests.luthier.training.bills import ledger_in

ROOT = Path(__file__).resolve().parents[3]
TRAIN = """
import sys
from pathlib import Path
from luthier.settings.training import ReinforceParams, SftParams
from luthier.reward import RewardValue
from luthier.training import policy_gradient, sft
from tests.conftest import GRAPHS, PROMPTS
from tests.luthier.training.bills import bill_in

phase, base, folder, precision, config = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5]
shared = {"learning_rate": 2e-3, "precision": precision, "deepspeed": config}
places = {"seed": 3, "record": {"phase": phase}, "scratch": folder / "scratch", "bill": bill_in(folder)}
if phase == "sft":
    rows = [sft.SftRow(prompt, graph) for graph in GRAPHS for prompt in PROMPTS]
    sft.train(rows, base, folder / "out", SftParams(batch=4, epochs=1.0, **shared), **places)
else:
    def judge(ids, texts, scope):
        return [RewardValue(len(text) % 2, {"correct": len(text) % 2}) for text in texts]

    prompts = {f"q{number}": prompt for number, prompt in enumerate(PROMPTS)}
    settings = ReinforceParams(batch=8, steps=3, questions=2, samples=4, temperature=1.0, probe_samples=0, **shared)
    policy_gradient.train(prompts, base, folder / "out", settings, max_tokens=8, judge=judge, **places)
"""
pytestmark = pytest.mark.slow
without_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed (extra `deepspeed`)"
)


def needs_deepspeed(test):
    return pytest.mark.extras(without_deepspeed(test))


@pytest.fixture
def config(tmp_path) -> Path:
    """The configuration of profile `cluster`; every parameter is parted, also those too small to be worth it."""
    settings = json.loads((ROOT / "profiles" / "zero3.json").read_text(encoding="utf-8"))
    settings["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    path = tmp_path / "zero3.json"
    write_json(path, settings)
    return path


def train(phase: str, base: Path, folder: Path, config: Path | str = "", precision: str = "fp32", processes: int = 1):
    """A training in processes of its own, for DeepSpeed's state is the process's; the weights that it saved."""
    from safetensors.torch import load_file

    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(processes),
    }
    command = [sys.executable, "-c", TRAIN, phase, str(base), str(folder), precision, str(config)]
    ranks = []
    for rank in range(processes):
        mine = (
            {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            if config
            else os.environ | {"PYTHONPATH": str(ROOT)}
        )
        ranks.append(subprocess.Popen(command, env=mine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [process.communicate(timeout=600)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0] * processes, "\n".join(said)[-4000:]
    return load_file(folder / "out" / "model.safetensors")


def free_port() -> int:
    """A port below those that the system hands out, for nobody may take it while the processes start."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port")


def furthest(weights, others) -> float:
    assert set(weights) == set(others)
    return max((weights[name].float() - others[name].float()).abs().max().item() for name in weights)


@needs_deepspeed
@pytest.mark.parametrize("phase", ["sft", "reinforce"])
def test_parted_and_whole_training_end_with_the_same_weights(tiny_base, tmp_path, config, phase):
    """Curves too: from the second step on, rewards come from what the refreshed sampler drew."""
    plain = train(phase, tiny_base, tmp_path / "plain")
    parted = train(phase, tiny_base, tmp_path / "parted", config)
    start = {name: tensor.half() for name, tensor in checkpoint.load(tiny_base)[0].state_dict().items()}
    start.pop("lm_head.weight", None)
    assert furthest(plain, start) > 1e-3, "a training that moves nothing would prove nothing"
    assert furthest(parted, plain) < 2e-3
    key = "loss" if phase == "sft" else "reward"
    curves = [[row[key] for row in read_record(tmp_path / name / "out")["curve"]] for name in ("plain", "parted")]
    assert curves[1] == pytest.approx(curves[0], abs=1e-3)
    bills = [ledger_in(tmp_path / name).spent("paid") for name in ("plain", "parted")]
    assert bills[0].usage.calls == bills[1].usage.calls > 0


@needs_deepspeed
def test_a_bfloat16_training_saves_the_finer_weights_of_its_optimiser(tiny_base, tmp_path, config):
    weights = train("sft", tiny_base, tmp_path, config, precision="autocast_bf16")
    assert any((tensor.float() != tensor.bfloat16().float()).any() for tensor in weights.values())


@needs_deepspeed
@pytest.mark.parametrize("phase", ["sft", "reinforce"])
def test_two_processes_save_one_whole_checkpoint_and_each_pays_its_part(tiny_base, tmp_path, config, phase):
    weights = train(phase, tiny_base, tmp_path, config, processes=2)
    model, _ = checkpoint.load(tmp_path / "out")
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert {name: tensor.shape for name, tensor in weights.items()} == shapes
    assert all(tensor.isfinite().all() for tensor in weights.values())
    steps = [entry.context.scope for entry in ledger_in(tmp_path).entries() if entry.part == "update"]
    assert steps.count("step 0") == steps.count("step 0 rank 1") == 1


def test_without_deepspeed_nothing_is_gathered(tiny_base):
    import torch

    from luthier.training import zero

    parameter = torch.nn.Parameter(torch.arange(3.0))
    assert not zero.is_parted(parameter)
    for read in (zero.whole, zero.master):
        with read(parameter) as values:
            assert values is parameter


def test_a_process_that_does_not_write_keeps_and_writes_nothing(tiny_base, tmp_path):
    model, _ = checkpoint.load(tiny_base)
    assert checkpoint.whole_weights(model, keeps=False) == {}
    checkpoint.save(tmp_path / "c", model, tiny_base, {"phase": "sft"}, writes=False)
    assert list(tmp_path.iterdir()) == []
