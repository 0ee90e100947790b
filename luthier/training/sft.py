"""Phase *sft*: supervised fine-tuning on (prompt, harness) rows with TRL's SFTTrainer, loss on the completion alone.

L = -sum_t log p(y_t | prompt, y_<t) over the tokens of the harness text and the end token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luthier.params import SftParams
from luthier.training import checkpoint
from luthier.training.bill import Bill, Updates
from luthier.training.resume import ResumeFolder, quiet

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

    Returns:
        The curve: one row per logged step with loss, learning rate, mean token accuracy and entropy.
    """
    checkpoint.quiet_libraries()
    import torch
    from datasets import Dataset
    from transformers import set_seed
    from trl import SFTConfig

    set_seed(seed)
    model, tokenizer = checkpoint.load(base, precision=settings.precision)
    trainable = checkpoint.train_last_layers(model, settings.layers)
    data = Dataset.from_list([{PROMPT: row.prompt, COMPLETION: row.completion} for row in rows])
    resume = ResumeFolder(scratch)
    device_batch = max(size for size in range(1, 17) if settings.batch % size == 0)
    config = SFTConfig(
        output_dir=str(resume.folder),
        per_device_train_batch_size=device_batch,
        gradient_accumulation_steps=settings.batch // device_batch,
        learning_rate=settings.learning_rate,
        num_train_epochs=settings.epochs,
        lr_scheduler_type="linear",
        warmup_steps=0,
        bf16=settings.precision == "autocast_bf16",
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=False,
        packing=False,
        completion_only_loss=True,
        max_length=None,  # a cut row would lose its harness, which stands last
        seed=seed,
        data_seed=seed,
        logging_steps=1,
        save_strategy="steps",
        save_steps=max(10, resume.interval(len(rows), settings.batch, settings.epochs)),
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        deepspeed=settings.deepspeed or None,
    )
    updates = Updates(bill)
    trainer = _trainer_class()(
        model=model,
        args=config,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[updates.callback(), *resume.callbacks(report)],
    )
    trainer.updates = updates
    quiet(trainer)
    try:
        trainer.train(resume_from_checkpoint=resume.latest())
    finally:
        updates.end(whole=False)
    curve = resume.curve(trainer.state.log_history)
    record = {
        **record,
        "settings": settings.model_dump(),
        "trainable_parameters": trainable,
        "rows": len(rows),
        "curve": curve,
    }
    first = trainer.accelerator.is_main_process
    checkpoint.save(out, trainer.accelerator.unwrap_model(trainer.model), base, record, writes=first)
    if first:
        resume.clear()
    return curve


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
