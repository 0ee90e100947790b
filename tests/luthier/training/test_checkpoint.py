"""Checkpoint folders: the same bytes for the same weights, whole or absent, also on a full disk."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from luthier.errors import InputError
from luthier.training import checkpoint


@pytest.mark.slow
def test_equal_weights_give_equal_bytes_and_load_again(tiny_base, tmp_path):
    import torch

    model, _ = checkpoint.load(tiny_base)
    for name in ("one", "two"):
        checkpoint.save(tmp_path / name, model, tiny_base, {"phase": "sft", "seed": 1})
    assert checkpoint.digest(tmp_path / "one") == checkpoint.digest(tmp_path / "two")
    again, tokenizer = checkpoint.load(tmp_path / "one")
    assert all(
        torch.equal(tensor.half(), again.state_dict()[name].half()) for name, tensor in model.state_dict().items()
    )
    assert next(again.parameters()).dtype == torch.float32
    assert next(checkpoint.load(tmp_path / "one", precision="bf16")[0].parameters()).dtype == torch.bfloat16
    assert tokenizer.eos_token == "<end>"
    assert checkpoint.read_record(tmp_path / "one") == {"phase": "sft", "seed": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"], "no half-written folder stays behind"


@pytest.mark.slow
def test_a_new_checkpoint_replaces_the_old_one_whole(tiny_base, tmp_path):
    model, _ = checkpoint.load(tiny_base)
    checkpoint.save(tmp_path / "c", model, tiny_base, {"phase": "sft"})
    (tmp_path / "c" / "stray").write_text("from before")
    checkpoint.save(tmp_path / "c", model, tiny_base, {"phase": "reinforce"})
    assert not (tmp_path / "c" / "stray").exists()
    assert checkpoint.read_record(tmp_path / "c") == {"phase": "reinforce"}


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint_untouched(tiny_base, tmp_path):
    model, _ = checkpoint.load(tiny_base)
    checkpoint.save(tmp_path / "c", model, tiny_base, {"phase": "sft"})
    before = checkpoint.digest(tmp_path / "c")
    code = """
import resource, sys
from pathlib import Path
from luthier.errors import StoreError
from luthier.training import checkpoint
base, folder = Path(sys.argv[1]), Path(sys.argv[2])
model, _ = checkpoint.load(base)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    checkpoint.save(folder, model, base, {"phase": "reinforce"})
except StoreError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tiny_base), str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{tmp_path / 'c'}: cannot write the checkpoint ("), done.stderr
    assert "Fix: free disk space" in done.stdout
    assert checkpoint.digest(tmp_path / "c") == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.slow
def test_layers_are_counted_by_their_parameters(tiny_base):
    model, _ = checkpoint.load(tiny_base)
    every = sum(parameter.numel() for parameter in model.parameters())
    assert checkpoint.train_last_layers(model, 0) == every
    # One block: q 32x32, k and v 32x16, o 32x32, three 32x64 of the mlp, two norms of 32; and the final norm of 32.
    assert checkpoint.train_last_layers(model, 1) == 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64 + 2 * 32 + 32
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(".layers.1." in name or name == "model.norm.weight" for name in trained)


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no model.safetensors in the folder. Fix: run the stage that trains it"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot read the file"),
        ("{broken", "not a JSON object"),
        ("[1]", "not a JSON object"),
        (b"\xff", "cannot read the file"),
    ],
)
def test_a_missing_or_broken_record_is_named(tmp_path, content, problem):
    if content is not None:
        (tmp_path / "training.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=rf"training.json: {problem}.*Fix: train the checkpoint"):
        checkpoint.read_record(tmp_path)


def test_a_record_is_read_as_written(tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"curve": [{"loss": 1.0}]}))
    assert checkpoint.read_record(tmp_path) == {"curve": [{"loss": 1.0}]}
