"""Targets: one file per engine, opened from one specification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from luthier.errors import InputError
from luthier.target import Target

EngineName = Literal["openvino", "transformers", "openai", "scripted"]
ENGINES: tuple[EngineName, ...] = ("openvino", "transformers", "openai", "scripted")
EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Which model, on which engine.

    Attributes:
        engine: "openvino" (embedded default), "transformers", "openai" (any compatible server) or
            "scripted" (answers every prompt with `model`; for tests).
        model: "embedded" for the model that a package ships; "embedded-pruned-10" for it without a tenth of
            its weights, the smallest (openvino; a second target); a GGUF file or checkpoint folder for the
            in-process engines; a server's model name.
        base_url: Root of the server, with its /v1; openai only.
        revision: What pins a server's weights in the fingerprint; openai only.
        precision: Compute precision of the in-process engines.
        batch: Sequences that an in-process engine advances together.
        device: "cpu" or an accelerator as the engine names it ("cuda").
        timeout_seconds, retries, concurrency: Of one HTTP attempt, of one request, of the client.
        outage_seconds: How long to wait for a server that is away; openai only.
        thinking_tokens: Room of a chat answer for what a reasoning model thinks before it; openai only.
        share_prefixes: Prefix caching of the embedded engine: faster, not exact.
        cache: Folder for files made once.
    """

    engine: EngineName = "openvino"
    model: str = EMBEDDED
    base_url: str = ""
    revision: str = ""
    precision: Literal["bf16", "f32"] = "bf16"
    batch: int = 64
    device: str = "cpu"
    timeout_seconds: float = 60.0
    retries: int = 4
    concurrency: int = 16
    outage_seconds: float = 300.0
    thinking_tokens: int = 0
    share_prefixes: bool = False
    cache: Path = Path(".cache")


def open_target(spec: TargetSpec) -> Target:
    """Open the model that a specification names. Heavy libraries are imported here, not before.

    Raises:
        InputError: unknown engine, a missing file or package, a setting that the engine does not have.
        TargetError: the server does not answer or serves another model.
    """
    if spec.engine == "openvino":
        from luthier.targets.openvino import OpenVinoTarget
        from luthier.targets.support import pruning
        from luthier.targets.support.weights import prepare

        gguf = prepare(spec.cache).gguf if spec.model == EMBEDDED else Path(spec.model)
        if spec.model.startswith(pruning.PREFIX):
            gguf = pruning.pruned(spec.cache, pruning.share_of(spec.model))
        return OpenVinoTarget(
            gguf,
            spec.model,
            precision=spec.precision,
            batch=spec.batch,
            share_prefixes=spec.share_prefixes,
            device=spec.device.upper(),
        )
    if spec.engine == "transformers":
        from luthier.targets.support.weights import prepare
        from luthier.targets.transformers import TransformersTarget

        folder = prepare(spec.cache).hf if spec.model == EMBEDDED else Path(spec.model)
        return TransformersTarget(folder, spec.model, precision=spec.precision, batch=spec.batch, device=spec.device)
    if spec.engine == "openai":
        from luthier.targets.openai import OpenAITarget

        return OpenAITarget(
            spec.base_url,
            spec.model,
            revision=spec.revision,
            timeout_seconds=spec.timeout_seconds,
            retries=spec.retries,
            concurrency=spec.concurrency,
            outage_seconds=spec.outage_seconds,
            thinking_tokens=spec.thinking_tokens,
        )
    if spec.engine == "scripted":
        from luthier.targets.scripted import ScriptedTarget

        return ScriptedTarget([("", spec.model.replace("\\", "\\\\"))], name=f"scripted {spec.model}")
    raise InputError(
        f"engine {spec.engine!r} is unknown", where="target.engine", fix=f"use one of {', '.join(ENGINES)}"
    )
