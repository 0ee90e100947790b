"""Settings of what is trained: the generator, and each phase of training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from luthier.settings.base import Section

PRICE_FIELDS = ("prompt_usd_per_million", "completion_usd_per_million", "trained_usd_per_million")
"""Settings that decide what work costs, and no result."""


class GeneratorParams(Section):
    """The trainable model that writes harnesses."""

    model: str = Field(default="embedded", description="'embedded' or a local folder in Hugging Face form")
    max_tokens: int = Field(default=48, ge=4, description="bound of one harness text")
    prompt_usd_per_million: float | None = Field(default=None, ge=0, description="unknown stays unknown, never 0")
    completion_usd_per_million: float | None = Field(default=None, ge=0)
    trained_usd_per_million: float | None = Field(default=None, ge=0, description="of tokens that it is trained on")


class TrainerParams(Section):
    """What every training phase shares."""

    learning_rate: float = Field(gt=0)
    batch: int = Field(ge=1, description="sft: rows per optimiser step; reinforce: rows in memory at once")
    precision: Literal["fp32", "autocast_bf16", "bf16"] = "autocast_bf16"
    layers: int = Field(default=0, ge=0, description="train only the last N layers; 0 = all weights (ours)")
    deepspeed: str = Field(default="", description="ZeRO configuration file, for several GPUs")


class SftParams(TrainerParams):
    """Phase sft (TRL SFTTrainer, loss on the completion alone)."""

    epochs: float = Field(gt=0)


class DpoParams(TrainerParams):
    """Phase dpo (TRL DPOTrainer): prefer one text to another, beside a frozen copy of the start."""

    epochs: float = Field(gt=0)
    beta: float = Field(default=0.1, gt=0, description="how closely the reference is kept to (DPO, equation 7)")


class ReinforceParams(TrainerParams):
    """Phase reinforce (TRL GRPOTrainer). Algorithm, group size, KL and clip are ours: no source states them."""

    steps: int = Field(ge=1)
    questions: int = Field(default=8, ge=1, description="questions per step")
    samples: int = Field(default=8, ge=2, description="group size")
    temperature: float = Field(default=1.2, gt=0)
    kl: float = Field(default=0.0, ge=0, description="weight of the KL term against the SFT checkpoint; 0 = off")
    clip: float = Field(default=0.2, gt=0, description="PPO clip range epsilon")
    scale: Literal["group", "batch", "none"] = Field(default="group", description="divide advantages by this std")
    drop_flat_groups: bool = Field(default=True, description="no forward/backward for zero-variance groups (ours)")
    probe_samples: int = Field(default=8, ge=0, description="samples that choose the questions; 0 = no choice")
    solved_below: float = Field(default=1.0, gt=0, le=1, description="share of correct samples that ends a question")
    save_every: int = Field(default=10, ge=1, description="steps between resumable checkpoints")
    milestones: list[int] = Field(default_factory=list, description="steps whose checkpoints are kept and compared")
    valid_but_wrong: float = Field(default=0.1, ge=0, le=1, description="middle tier of the reward")

    @model_validator(mode="after")
    def _whole_batches(self) -> ReinforceParams:
        if self.questions * self.samples % self.batch:
            raise ValueError(
                f"batch {self.batch} does not divide questions x samples = {self.questions * self.samples}"
            )
        return self

    @model_validator(mode="after")
    def _inner_milestones(self) -> ReinforceParams:
        if self.milestones != sorted(set(self.milestones)) or any(not 0 < m < self.steps for m in self.milestones):
            raise ValueError(f"milestones {self.milestones} must rise and lie between 0 and steps = {self.steps}")
        return self
