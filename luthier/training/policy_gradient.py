"""Phase *reinforce*: group-relative policy gradient (GRPO) with TRL's GRPOTrainer and our executor as the reward.

For each question G harnesses are sampled, executed on the frozen target and rewarded; the advantage of
sample k is A_k = (R_k - mean R) / (std R + 1e-4) (`scale: group`), and the clipped ratio objective is
maximised. With one optimiser step per batch of samples the ratio is 1 and the clip idle.

Ours (no source states them for MAS-Architect): group size, learning rate, KL weight, sampling
temperature, which questions are asked, and that zero-variance groups (all rewards equal, hence all advantages
zero) are counted and not sent through the model. Without a KL term their gradient is exactly zero, so
dropping them changes no update: the loss is normalised by the tokens of the whole batch (`dapo`). Their
advantages are set to zero first: the mean of eight rewards of 0.1 is not 0.1 in float32, and Adam would make
a full step of the rounding error that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.errors import InputError
from luthier.files import digest_text
from luthier.reward import RewardValue
from luthier.settings.training import ReinforceParams
from luthier.stopping import StopSignal
from luthier.target import Usage
from luthier.training import checkpoint
from luthier.training.bill import Bill, Updates, paying
from luthier.training.sampler import Sample, Sampler
from luthier.training.session import TrainingSession

if TYPE_CHECKING:
    import torch

KEPT = "steps"
"""Folder of the checkpoints that are kept on the way, each named by its step."""
Judge = Callable[[Sequence[str], Sequence[str], str], list[RewardValue]]
"""(question ids, harness texts, scope) -> rewards, in order; runs the harnesses on the frozen target. The scope
names the step, so that a training resumed in its middle enters the same payments under the same names."""


def choose_questions(
    prompts: dict[str, str],
    judge: Judge,
    sampler: Sampler,
    samples: int,
    seed: int,
    bill: Bill,
    solved_below: float = 1.0,
    batch: int = 128,
) -> tuple[list[str], dict[str, float]]:
    """Keep the questions from which there is something to learn.

    Each question is sampled `samples` times from the starting checkpoint. Those whose share of correct samples
    reaches `solved_below` are left out, unless there are no others; those solved by some and by none alternate.

    Args:
        prompts: Question id -> generator prompt.
        judge: Executes and rewards.
        sampler: Draws from the starting checkpoint.
        samples: Samples per question.
        seed: Base seed.
        bill: Pays for the samples.
        solved_below: Share of correct samples from which on a question counts as solved.
        batch: Samples drawn together.

    Returns:
        Question ids in training order, and the share of correct samples of every question.
    """
    rates: dict[str, float] = {}
    ids = list(prompts)
    together = max(1, batch // samples)
    for start in range(0, len(ids), together):
        part = ids[start : start + together]
        drawn = _draw(sampler, bill, [prompts[i] for i in part], samples, seed + start, f"probe {start}")
        texts = [sampler.text(sample) for group in drawn for sample in group]
        values = judge([i for i in part for _ in range(samples)], texts, f"probe {start}")
        for index, question in enumerate(part):
            group = values[index * samples : (index + 1) * samples]
            rates[question] = sum(value.parts.get("correct", 0.0) for value in group) / samples
    open_questions = [i for i in ids if rates[i] < solved_below]
    mixed = [i for i in open_questions if rates[i] > 0.0]
    unsolved = [i for i in open_questions if rates[i] == 0.0]
    return _interleave(mixed, unsolved) or ids, rates


def _draw(sampler: Sampler, bill: Bill, prompts: Sequence[str], count: int, seed: int, step: str) -> list[list[Sample]]:
    """`Sampler.sample`, paid."""
    with paying(bill, "draw", step, sampler.most(prompts, count)) as charge:
        drawn = sampler.sample(prompts, count, seed)
        read = sum(len(group[0].prompt_ids) for group in drawn)
        charge.usage = Usage(len(prompts) * count, read, sum(len(one.ids) for group in drawn for one in group))
    return drawn


def _interleave(mixed: list[str], unsolved: list[str]) -> list[str]:
    """Alternate both lists, so that every batch holds questions that teach now and ones to explore."""
    order: list[str] = []
    for index in range(max(len(mixed), len(unsolved))):
        order += mixed[index : index + 1] + unsolved[index : index + 1]
    return order


def question_schedule(order: Sequence[str], count: int) -> list[str]:
    """The questions of all steps: `order` over and over, so that no short rest of it is left out (TRL drops it)."""
    return [order[position % len(order)] for position in range(count)]


def train(
    prompts: dict[str, str],
    base: Path,
    out: Path,
    settings: ReinforceParams,
    *,
    max_tokens: int,
    seed: int,
    judge: Judge,
    record: dict[str, Any],
    scratch: Path,
    bill: Bill,
    report: Callable[[dict[str, float]], None] | None = None,
    stop: StopSignal | None = None,
) -> list[dict[str, float]]:
    """Train `base` on questions with executed rewards and write the checkpoint folder `out`.

    Args:
        prompts: Question id -> generator prompt.
        base: Checkpoint to start from (after SFT).
        out: Checkpoint folder to write; appears whole or not at all. The checkpoints of `settings.milestones`
            come into its folder `KEPT`.
        settings: See `ReinforceParams`.
        max_tokens: Bound of one harness text.
        seed: Decides sampling and order.
        judge: Executes harness texts on the frozen target and rewards them.
        record: What `training.json` should hold; the curve, the chosen questions and the settings are added.
        scratch: Folder for resumable state.
        bill: Pays for samples and update passes; what the target does is paid by `judge`.
        report: Called with each logged step.
        stop: Asked after each step.

    Returns:
        The curve: one row per step with reward, shares of valid and correct samples, zero-variance groups, KL, length.
    """
    session = TrainingSession(base, settings, seed=seed, scratch=scratch, bill=bill, stop=stop)
    from datasets import Dataset

    sampler = Sampler(session.model, session.tokenizer, max_tokens=max_tokens, temperature=settings.temperature)
    order, rates = list(prompts), dict[str, float]()
    if settings.probe_samples:
        order, rates = choose_questions(
            prompts, judge, sampler, settings.probe_samples, seed, bill, settings.solved_below
        )
    if not order:
        raise InputError("no training questions are left", where="reinforce", fix="raise questions.train")
    schedule = question_schedule(order, settings.steps * settings.questions)
    trainer = _trainer_class()(
        model=session.model,
        args=_config(session, settings, max_tokens),
        train_dataset=Dataset.from_list([{"prompt": prompts[question], "question": question} for question in schedule]),
        processing_class=session.tokenizer,
        reward_funcs=[_reward_function(judge, settings.samples, session.updates)],
        rollout_func=_rollout(sampler, settings.samples, seed, bill, session.updates),
        callbacks=session.callbacks(report),
    )
    trainer.add_callback(_keeper(trainer, settings.milestones, scratch / KEPT, base, record))
    trainer.bill, trainer.updates = bill, session.updates
    trainer.drop_flat_groups = settings.drop_flat_groups and settings.kl == 0.0
    solved = {question: rates[question] for question in sorted(rates)}
    kept = {f"{KEPT}/{step}": scratch / KEPT / str(step) for step in settings.milestones}
    return session.run(trainer, out, record, {"questions": len(order), "solved_before": solved}, kept)


def _keeper(trainer: Any, milestones: Sequence[int], folder: Path, base: Path, record: Mapping[str, Any]) -> Any:
    """The callback that keeps a checkpoint of each milestone beside the trainer's state; a step done again, again."""
    from transformers import TrainerCallback

    class Keeper(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step in milestones:
                model, first = trainer.accelerator.unwrap_model(trainer.model), trainer.accelerator.is_main_process
                step = {**record, "step": state.global_step}
                checkpoint.save(folder / str(state.global_step), model, base, step, writes=first)

    return Keeper()


def _config(session: TrainingSession, settings: ReinforceParams, max_tokens: int) -> Any:
    from trl import GRPOConfig

    passes = settings.questions * settings.samples // settings.batch
    return GRPOConfig(
        **session.arguments(),
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=passes,
        steps_per_generation=passes,
        num_generations=settings.samples,
        num_iterations=1,
        max_steps=settings.steps,
        max_completion_length=max_tokens,
        lr_scheduler_type="constant",
        temperature=settings.temperature,
        beta=settings.kl,
        epsilon=settings.clip,
        scale_rewards=settings.scale,
        loss_type="dapo",
        mask_truncated_completions=False,
        shuffle_dataset=False,
        save_steps=settings.save_every,
    )


def _rollout(sampler: Sampler, samples: int, seed: int, bill: Bill, updates: Updates) -> Callable[..., dict[str, Any]]:
    """TRL's rollout hook (experimental there, hence in this one place): prompts -> sampled token ids."""

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        sampler.refresh()
        distinct = prompts[::samples]
        step = trainer.state.global_step
        step_seed = int(digest_text(f"{seed}:{step}")[:8], 16)
        with updates.elsewhere():
            groups = _draw(sampler, bill, distinct, samples, step_seed, f"step {step}")
        drawn = [sample for group in groups for sample in group]
        return {
            "prompt_ids": [sample.prompt_ids for sample in drawn],
            "completion_ids": [sample.ids for sample in drawn],
            "logprobs": [sample.logprobs for sample in drawn],
        }

    return rollout


def _reward_function(judge: Judge, samples: int, updates: Updates) -> Callable[..., list[float | None]]:
    """Our reward as TRL's: None where the machine failed, so that the sample is left out of its group."""

    def executed_reward(
        completions: list[str],
        question: list[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float | None]:
        with updates.elsewhere():
            values = judge(question, completions, f"step {trainer_state.global_step}")
        for part in ("valid", "correct", "cheating"):
            known = [value.parts[part] for value in values if part in value.parts]
            if known:
                log_metric(part, sum(known) / len(known))
        log_metric("flat_groups", share_of_zero_variance_groups([value.value for value in values], samples))
        return [value.value for value in values]

    return executed_reward


def share_of_zero_variance_groups(rewards: Sequence[float | None], samples: int) -> float:
    """Share of the groups of `samples` whose known rewards are all equal: they teach nothing."""
    groups = [rewards[start : start + samples] for start in range(0, len(rewards), samples)]
    return sum(len({reward for reward in group if reward is not None}) <= 1 for group in groups) / len(groups)


def _trainer_class() -> Any:
    import torch
    from trl import GRPOTrainer

    class FlatGroupDroppingTrainer(GRPOTrainer):
        """GRPO that sends each distinct sample of a group with unequal rewards through the model, once, and pays."""

        bill: Bill
        updates: Updates
        drop_flat_groups = False

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            batch = super()._generate_and_score_completions(inputs)
            settings: Any = self.args
            batch["advantages"] = without_rounding(batch["advantages"], settings.num_generations)
            if not self.drop_flat_groups:
                return batch
            return trim_padding(keep_unequal(merge_equal(batch), settings.steps_per_generation))

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            prompt, completion = inputs["prompt_mask"], inputs["completion_mask"]
            self.updates.passing(len(prompt), int(prompt.sum()), int(completion.sum()))
            return super().compute_loss(model, inputs, *args, **kwargs)

        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, *args: Any, **kwargs: Any
        ) -> Any:
            """Reads rows for the loss, which `compute_loss` pays for, or without gradient for the KL term."""
            read = super()._get_per_token_logps_and_entropies
            if torch.is_grad_enabled():
                return read(model, input_ids, attention_mask, *args, **kwargs)
            most = Usage(len(input_ids), int(attention_mask.sum()))
            step = f"step {self.state.global_step}"
            with self.updates.elsewhere(), paying(self.bill, "reference", step, most) as charge:
                charge.usage = most
                return read(model, input_ids, attention_mask, *args, **kwargs)

    return FlatGroupDroppingTrainer


def without_rounding(advantages: torch.Tensor, samples: int) -> torch.Tensor:
    """Advantages with those of zero-variance groups exactly zero.

    Advantages of unequal rewards sum to zero, so they have both signs; what has one sign only is rounding.

    Args:
        advantages: (P*G,), groups one after the other.
        samples: Group size G.
    """
    groups = advantages.view(-1, samples)
    flat = (groups >= 0).all(dim=1) | (groups <= 0).all(dim=1)
    return groups.masked_fill(flat[:, None], 0.0).view(-1)


def merge_equal(batch: dict[str, Any]) -> dict[str, Any]:
    """One row for samples of a question with the same tokens; its advantage is the sum of theirs.

    With one update per batch the ratio is 1 and the loss is linear in the advantage, so the gradient is the
    same. A policy that is sure of itself repeats itself: about half of the rows need not be computed (ours).

    Args:
        batch: TRL's generation batch; its tensors have B rows.
    """
    import torch

    rows = torch.cat([batch["prompt_ids"], batch["completion_ids"], batch["completion_mask"]], dim=1).tolist()
    first: dict[tuple[int, ...], int] = {}
    owner = [first.setdefault(tuple(row), index) for index, row in enumerate(rows)]
    advantages = torch.zeros_like(batch["advantages"])
    advantages.index_add_(0, torch.tensor(owner, device=advantages.device), batch["advantages"])
    kept = torch.tensor(sorted(first.values()), device=advantages.device)
    return _select({**batch, "advantages": advantages}, kept)


def trim_padding(batch: dict[str, Any]) -> dict[str, Any]:
    """Cut the padding that no row needs: on the left of prompts, on the right of completions."""
    prompt = int(batch["prompt_mask"].sum(dim=1).max())
    completion = int(batch["completion_mask"].sum(dim=1).max())
    cut = {name: batch[name][:, -prompt:] for name in ("prompt_ids", "prompt_mask")}
    names = ("completion_ids", "completion_mask", "sampling_per_token_logps")
    return {**batch, **cut, **{name: batch[name][:, :completion] for name in names if name in batch}}


def keep_unequal(batch: dict[str, Any], passes: int = 1) -> dict[str, Any]:
    """Rows whose advantage is not zero, filled up to a multiple of `passes` (at least one each).

    It is filled with rows of zero advantage and, where there are too few of them, with copies of a row whose advantage
    is set to zero: TRL would drop the rest that no pass takes. `num_items_in_batch`, the token count that normalises
    the loss, stays that of the whole batch, and a row of zero advantage has no gradient, so neither dropping nor
    filling up changes an update.

    Args:
        batch: TRL's generation batch; its tensors have B rows.
        passes: Into how many equal parts it will be split; divides B.
    """
    import torch

    teaching = (batch["advantages"] != 0).tolist()
    unequal = [row for row, teaches in enumerate(teaching) if teaches]
    equal = [row for row, teaches in enumerate(teaching) if not teaches]
    wanted = max(-(-len(unequal) // passes), 1) * passes
    kept = sorted([*unequal, *equal[: wanted - len(unequal)]])
    copies = wanted - len(kept)
    chosen = torch.tensor([*kept, *([kept[0]] * copies)], device=batch["advantages"].device)
    found = _select(batch, chosen)
    if copies:
        found["advantages"] = found["advantages"].clone()
        found["advantages"][len(kept) :] = 0.0
    return found


def _select(batch: dict[str, Any], rows: torch.Tensor) -> dict[str, Any]:
    """The rows of every tensor that has one per sample; `rows` is a mask or indices."""
    import torch

    size = batch["advantages"].shape[0]
    return {
        key: value[rows] if isinstance(value, torch.Tensor) and value.ndim > 0 and value.shape[0] == size else value
        for key, value in batch.items()
    }
