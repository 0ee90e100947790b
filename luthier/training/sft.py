"""Phase *sft*: supervised fine-tuning on (prompt, harness) rows with TRL's SFTTrainer, loss on the completion alone.

L = -sum_t log p(y_t | prompt, y_<t) over the tokens of the harness text and the end token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.settings.training import SftParams
from luthier.stopping import StopSignal
from luthier.training.bill import Bill, Updates
from luthier.training.session import TrainingSession

PROMPT, COMPLETION = "prompt", "completion"


@dataclass(frozen=True, slots=True)
class SftRow:
    """One training text: the loss covers `completion` and the end token that follows it."""

    prompt: str
    completion: str


def train(
    rows: Sequence[SftRow],
    base: Path,
    out: Path,
    settings: SftParams,
    *,
    seed: int,
    record: dict[str, Any],
    scratch: Path,
    bill: Bill,
    report: Callable[[dict[str, float]], None] | None = None,
    stop: StopSignal | None = None,
) -> list[dict[str, float]]:
    """Fine-tune `base` on `rows` and write the checkpoint folder `out`.

    Args:
        rows: Training rows, in order; the trainer shuffles them with `seed`.
        base: Hugging Face folder to start from.
        out: Checkpoint folder to write; appears whole or not at all.
        settings: See `SftParams`.
        seed: Seed of shuffling and dropout.
        record: What `training.json` should hold; the curve and the settings are added.
        scratch: Folder for resumable state, keyed by everything that decides the result.
        bill: Pays for the update passes.
        report: Called with each logged step.
        stop: Asked after each step.

    Returns:
        The curve: one row per logged step with loss, learning rate, mean token accuracy and entropy.
    """
    session = TrainingSession(base, settings, seed=seed, scratch=scratch, bill=bill, stop=stop)
    from datasets import Dataset
    from trl import SFTConfig

    shared = session.epochs(len(rows), settings.batch, settings.epochs, together=16)
    config = SFTConfig(**shared, packing=False, completion_only_loss=True)
    trainer = _trainer_class()(
        model=session.model,
        args=config,
        train_dataset=Dataset.from_list([{PROMPT: row.prompt, COMPLETION: row.completion} for row in rows]),
        processing_class=session.tokenizer,
        callbacks=session.callbacks(report),
    )
    trainer.updates = session.updates
    return session.run(trainer, out, record, {"rows": len(rows)})


def _trainer_class() -> Any:
    from trl import SFTTrainer

    class PaidTrainer(SFTTrainer):
        """SFT that tells `updates` what goes through the model."""

        updates: Updates

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            labels = inputs["labels"]
            trained = int((labels != -100).sum())
            self.updates.passing(len(labels), int(inputs["attention_mask"].sum()) - trained, trained)
            return super().compute_loss(model, inputs, *args, **kwargs)

    return PaidTrainer
