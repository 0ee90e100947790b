"""Phase *dpo*: direct preference optimisation (Rafailov et al., arXiv 2305.18290, equation 7) with TRL's DPOTrainer.

L = -log sigmoid(beta * ((log p(chosen) - log ref(chosen)) - (log p(rejected) - log ref(rejected)))), log-probabilities
summed over the tokens of a text and its end token. The reference is the checkpoint that the training starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from luthier.settings.training import DpoParams
from luthier.stopping import StopSignal
from luthier.target import Usage
from luthier.training import checkpoint
from luthier.training.bill import Bill, Updates, paying
from luthier.training.session import TrainingSession


@dataclass(frozen=True, slots=True)
class PreferenceRow:
    """Two continuations of one prompt, the better and the worse one."""

    prompt: str
    chosen: str
    rejected: str


def train(
    rows: Sequence[PreferenceRow],
    base: Path,
    out: Path,
    settings: DpoParams,
    *,
    seed: int,
    record: dict[str, Any],
    scratch: Path,
    bill: Bill,
    report: Callable[[dict[str, float]], None] | None = None,
    stop: StopSignal | None = None,
) -> list[dict[str, float]]:
    """Train `base` on preferences and write the checkpoint folder `out`.

    Args:
        rows: Training rows, in order; the trainer shuffles them with `seed`.
        base: Hugging Face folder to start from, and the frozen reference.
        out: Checkpoint folder to write; appears whole or not at all.
        settings: See `DpoParams`; `batch` counts pairs.
        seed: Seed of shuffling and dropout.
        record: What `training.json` should hold; the curve and the settings are added.
        scratch: Folder for resumable state, keyed by everything that decides the result.
        bill: Pays for the update passes and for what the reference reads.
        report: Called with each logged step.
        stop: Asked after each step.

    Returns:
        The curve: one row per logged step with loss, rewards/margins, rewards/accuracies and learning rate.
    """
    session = TrainingSession(base, settings, seed=seed, scratch=scratch, bill=bill, stop=stop)
    from datasets import Dataset
    from trl import DPOConfig

    shared = session.epochs(len(rows), settings.batch, settings.epochs, together=8)
    config = DPOConfig(**shared, beta=settings.beta)
    reference, _ = checkpoint.load(base, precision=settings.precision)
    trainer = _trainer_class()(
        model=session.model,
        ref_model=reference,
        args=config,
        train_dataset=Dataset.from_list([asdict(row) for row in rows]),
        processing_class=session.tokenizer,
        callbacks=session.callbacks(report),
    )
    trainer.bill, trainer.updates = bill, session.updates
    return session.run(trainer, out, record, {"rows": len(rows)})


def _trainer_class() -> Any:
    from trl import DPOTrainer

    class PaidTrainer(DPOTrainer):
        """DPO that pays for what both models read; the seconds of both stand with the update."""

        bill: Bill
        updates: Updates

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            count, trained = len(inputs["input_ids"]), int(inputs["completion_mask"].sum())
            read = int(inputs["attention_mask"].sum())
            self.updates.passing(count, read - trained, trained)
            most = Usage(count, read)
            with paying(self.bill, "reference", f"step {self.state.global_step}", most) as charge:
                charge.usage = most
            return super().compute_loss(model, inputs, *args, **kwargs)

    return PaidTrainer
