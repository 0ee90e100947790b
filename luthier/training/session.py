"""What every training phase does around its own trainer: seed, load, freeze, resume, pay, run, save."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.settings.training import TrainerParams
from luthier.stopping import StopSignal
from luthier.training import checkpoint
from luthier.training.bill import Bill, Updates
from luthier.training.resume import ResumeFolder, quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TrainingSession:
    """One training from a base folder: opened, given a trainer, run to its end or to where it is killed.

    Args:
        base: Hugging Face folder to start from.
        settings: What every phase has.
        seed: Of everything random; set here, before the model is loaded.
        scratch: Folder for resumable state, keyed by everything that decides the result.
        bill: Pays for the update passes.
        stop: Asked after each step; None never stops. A training over several processes does not ask.

    Attributes:
        model, tokenizer: Loaded, all but the trained layers frozen.
        updates: What the trainer tells its passes to.
        resume: The resumable state.
    """

    def __init__(
        self,
        base: Path,
        settings: TrainerParams,
        *,
        seed: int,
        scratch: Path,
        bill: Bill,
        stop: StopSignal | None = None,
    ) -> None:
        checkpoint.quiet_libraries()
        from transformers import set_seed

        set_seed(seed)
        self.model: PreTrainedModel
        self.tokenizer: PreTrainedTokenizerBase
        self.model, self.tokenizer = checkpoint.load(base, precision=settings.precision)
        self._trainable = checkpoint.train_last_layers(self.model, settings.layers)
        self._base, self._settings, self._seed, self._stop = base, settings, seed, stop
        self.resume = ResumeFolder(scratch)
        self.updates = Updates(bill)

    def arguments(self) -> dict[str, Any]:
        """The trainer arguments that no phase sets otherwise."""
        import torch

        return {
            "output_dir": str(self.resume.folder),
            "learning_rate": self._settings.learning_rate,
            "bf16": self._settings.precision == "autocast_bf16",
            "use_cpu": not torch.cuda.is_available(),
            "gradient_checkpointing": False,
            "seed": self._seed,
            "data_seed": self._seed,
            "logging_steps": 1,
            "save_strategy": "steps",
            "save_total_limit": 1,
            "report_to": [],
            "disable_tqdm": True,
            "deepspeed": self._settings.deepspeed or None,
        }

    def epochs(self, rows: int, batch: int, epochs: float, together: int) -> dict[str, Any]:
        """The arguments of a trainer that goes over rows for some epochs, with a rate that falls to 0.

        Args:
            rows: How many there are.
            batch: Rows of an optimiser step.
            epochs: How often each row is seen.
            together: Most rows in memory at once; a batch is made of equal parts of at most so many.
        """
        part = max(size for size in range(1, together + 1) if batch % size == 0)
        return {
            **self.arguments(),
            "per_device_train_batch_size": part,
            "gradient_accumulation_steps": batch // part,
            "num_train_epochs": epochs,
            "lr_scheduler_type": "linear",
            "warmup_steps": 0,
            "max_length": None,  # a text that is cut is another text
            "save_steps": max(10, ResumeFolder.interval(rows, batch, epochs)),
            "dataloader_num_workers": 0,
        }

    def callbacks(self, report: Callable[[dict[str, float]], None] | None) -> list[Any]:
        """The trainer's callbacks: update passes are paid before a step is told."""
        stops = [self.resume.stops(self._stop)] if self._stop is not None else []
        return [self.updates.callback(), *self.resume.callbacks(report), *stops]

    def run(
        self,
        trainer: Any,
        out: Path,
        record: Mapping[str, Any],
        facts: Mapping[str, Any],
        kept: Mapping[str, Path] | None = None,
    ) -> list[dict[str, float]]:
        """Train, continuing at the last save, and write the checkpoint folder `out`, whole or not at all.

        Args:
            trainer: Made with `arguments` and `callbacks`.
            out: Checkpoint folder.
            record: What `training.json` begins with; settings and the number of trained weights follow.
            facts: What the phase has to add; the curve comes last.
            kept: Folders of the resumable state that go into `out`, by their place there.

        Returns:
            The curve: one row per logged step.
        """
        quiet(trainer)
        try:
            trainer.train(resume_from_checkpoint=self.resume.latest())
        finally:
            self.updates.end(whole=False)
        curve = self.resume.curve(trainer.state.log_history)
        shared = {"settings": self._settings.model_dump(), "trainable_parameters": self._trainable}
        first = trainer.accelerator.is_main_process
        model = trainer.accelerator.unwrap_model(trainer.model)
        checkpoint.save(out, model, self._base, {**record, **shared, **facts, "curve": curve}, writes=first)
        if first:
            for place, folder in (kept or {}).items():
                # Copied, not moved: whoever is killed here still has them when it goes on.
                shutil.copytree(folder, out / place)
            self.resume.clear()
        # Nobody leaves while another still gathers, or goes on before the checkpoint is there.
        trainer.accelerator.wait_for_everyone()
        return curve
