"""Settings of a model that answers: the frozen target, a teacher, a proposer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luthier.settings.base import Section


class TargetParams(Section):
    """The frozen model. `engine`: openvino | transformers | openai | scripted."""

    engine: Literal["openvino", "transformers", "openai", "scripted"] = "openvino"
    model: str = Field(default="embedded", description="'embedded', a local folder, or a server's model name")
    base_url: str = Field(default="", description="server root, for engine openai")
    revision: str = Field(default="", description="pins a server's weights in the fingerprint")
    precision: Literal["bf16", "f32"] = "bf16"
    batch: int = Field(default=64, ge=1)
    device: str = "cpu"
    timeout_seconds: float = Field(default=60.0, gt=0, description="of one attempt, first byte to last")
    retries: int = Field(default=4, ge=0)
    concurrency: int = Field(default=16, ge=1)
    outage_seconds: float = Field(default=300.0, ge=0, description="how long to wait for a server that is away")
    thinking_tokens: int = Field(default=0, ge=0, description="room for a reasoning model to think")
    share_prefixes: bool = Field(default=False, description="faster, but not exact on the embedded engine")
    prompt_usd_per_million: float | None = Field(default=None, ge=0, description="unknown stays unknown, never 0")
    completion_usd_per_million: float | None = Field(default=None, ge=0)
