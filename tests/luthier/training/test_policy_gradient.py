"""Phase reinforce: questions, advantages, rows; repeatable, resumable, and a KL term that starts at zero."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from luthier.reward import RewardValue
from luthier.settings.training import ReinforceParams
from luthier.training import checkpoint, policy_gradient
from luthier.training.policy_gradient import (
    KEPT,
    choose_questions,
    keep_unequal,
    merge_equal,
    question_schedule,
    share_of_zero_variance_groups,
    trim_padding,
    without_rounding,
)
from luthier.training.sampler import Sampler
from tests.conftest import PROMPTS
from tests.luthier.training.bills import bill_in, ledger_in, spent

IDS = {f"q{number}": prompt for number, prompt in enumerate(PROMPTS)}


class Killed(BaseException):
    """Stands for a process that ends in the middle."""


def settings(**changes) -> ReinforceParams:
    values = {
        "learning_rate": 1e-3,
        "batch": 8,
        "precision": "fp32",
        "steps": 3,
        "questions": 2,
        "samples": 4,
        "temperature": 1.0,
        "probe_samples": 0,
        "save_every": 1,
    }
    return ReinforceParams(**{**values, **changes})


def by_length(ids, texts, scope) -> list[RewardValue]:
    """A rule: short texts are right. Unequal within most groups of a random model."""
    return [RewardValue(float(len(text) % 2), {"valid": 1.0, "correct": float(len(text) % 2)}) for text in texts]


def train(base: Path, folder: Path, params: ReinforceParams, judge=by_length, prompts=IDS, kill_at: int = 0):
    def report(row):
        if row.get("step") == kill_at:
            raise Killed

    return policy_gradient.train(
        prompts,
        base,
        folder / "out",
        params,
        max_tokens=8,
        seed=3,
        judge=judge,
        record={"phase": "reinforce"},
        scratch=folder / "scratch",
        bill=bill_in(folder),
        report=report,
    )


def weights(folder: Path):
    from safetensors.torch import load_file

    return load_file(folder / "out" / "model.safetensors")


# --- arithmetic ------------------------------------------------------------------------------------------------


def test_the_schedule_repeats_the_order_and_leaves_no_rest_out():
    assert question_schedule(["a", "b", "c"], 7) == ["a", "b", "c", "a", "b", "c", "a"]
    assert question_schedule(["a"], 2) == ["a", "a"]


def test_flat_groups_are_those_whose_known_rewards_are_equal():
    assert share_of_zero_variance_groups([0.1, 0.1, 0.0, 1.0, None, 1.0, None, None], 2) == 0.75
    assert share_of_zero_variance_groups([0.0, 1.0], 2) == 0.0


def test_rounding_is_no_advantage():
    """Eight rewards of 0.1: their float32 mean is not 0.1, and TRL's formula leaves 7e-5 on every row."""
    import torch

    rewards = torch.tensor([[0.1] * 8, [0.1] * 7 + [1.0]])
    raw = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    assert raw[0].abs().max() > 1e-5, "the case that the function is for"
    cleaned = without_rounding(raw.view(-1), 8).view(2, 8)
    assert cleaned[0].tolist() == [0.0] * 8
    assert cleaned[1].equal(raw[1])


def test_a_row_without_reward_in_a_flat_group_does_not_hide_that_it_is_flat():
    import torch

    cleaned = without_rounding(torch.tensor([7e-5, 7e-5, 0.0, 7e-5, -0.5, 0.5, 0.0, 0.0]), 4)
    assert cleaned.tolist() == [0.0, 0.0, 0.0, 0.0, -0.5, 0.5, 0.0, 0.0]


def batch_of(*advantages: float):
    import torch

    return {
        "advantages": torch.tensor(advantages),
        "completion_ids": torch.arange(2 * len(advantages)).view(-1, 2),
        "num_items_in_batch": torch.tensor(99),
        "num_images": None,
    }


def test_only_rows_with_an_advantage_are_kept_and_the_normaliser_stays():
    kept = keep_unequal(batch_of(0.0, -1.0, 0.0, 1.0))
    assert kept["advantages"].tolist() == [-1.0, 1.0]
    assert kept["completion_ids"].tolist() == [[2, 3], [6, 7]]
    assert kept["num_items_in_batch"].item() == 99


def test_a_batch_without_any_advantage_keeps_one_row():
    assert keep_unequal(batch_of(0.0, 0.0, 0.0, 0.0))["advantages"].tolist() == [0.0]


def test_rows_are_filled_up_to_equal_passes_with_rows_of_zero_advantage():
    assert keep_unequal(batch_of(0.0, 2.0, -1.0, -1.0, 0.0, 0.0), passes=2)["advantages"].tolist() == [0, 2, -1, -1]
    assert keep_unequal(batch_of(0.0, 0.0, 0.0, 0.0), passes=2)["advantages"].tolist() == [0.0, 0.0]


def test_a_remainder_is_filled_up_with_copies_of_zero_advantage():
    kept = keep_unequal(batch_of(0.5, -1.5, 1.0), passes=2)
    assert kept["advantages"].tolist() == [0.5, -1.5, 1.0, 0.0], "three rows teach in two passes of two; none is lost"
    assert kept["completion_ids"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert keep_unequal(batch_of(0.0), passes=2)["advantages"].tolist() == [0.0, 0.0], "one row that all samples share"
    assert keep_unequal(batch_of(1.0), passes=3)["advantages"].tolist() == [1.0, 0.0, 0.0]


def test_equal_samples_become_one_row_with_the_sum_of_their_advantages():
    import torch

    batch = {
        "prompt_ids": torch.tensor([[7, 8]] * 3 + [[7, 9]]),
        "completion_ids": torch.tensor([[1, 2], [1, 3], [1, 2], [1, 2]]),
        "completion_mask": torch.ones(4, 2, dtype=torch.long),
        "advantages": torch.tensor([0.5, -1.5, 0.5, 1.0]),
        "num_items_in_batch": torch.tensor(8),
    }
    merged = merge_equal(batch)
    assert merged["advantages"].tolist() == [1.0, -1.5, 1.0]
    assert merged["prompt_ids"].tolist() == [[7, 8], [7, 8], [7, 9]]
    assert merged["completion_ids"].tolist() == [[1, 2], [1, 3], [1, 2]]
    assert merged["num_items_in_batch"].item() == 8


def test_padding_that_no_row_needs_is_cut():
    import torch

    batch = {
        "prompt_ids": torch.tensor([[0, 0, 5], [0, 6, 7]]),
        "prompt_mask": torch.tensor([[0, 0, 1], [0, 1, 1]]),
        "completion_ids": torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]),
        "advantages": torch.tensor([1.0, -1.0]),
    }
    trimmed = trim_padding(batch)
    assert trimmed["prompt_ids"].tolist() == [[0, 5], [6, 7]]
    assert trimmed["prompt_mask"].tolist() == [[0, 1], [1, 1]]
    assert trimmed["completion_ids"].tolist() == [[1, 2], [3, 0]]
    assert trimmed["completion_mask"].tolist() == [[1, 1], [1, 0]]


# --- training on a tiny model ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_advantages_are_centred_and_scaled_within_the_group(tiny_base, tmp_path, monkeypatch):
    """Rewards 0, 0, 0.1, 1 (mean 0.275, std 0.4856) and a group of 1, None, 0, 0.5 (mean 0.5, std 0.5)."""
    from trl import GRPOTrainer

    seen: list[list[float]] = []
    original = GRPOTrainer._compute_loss

    def spy(self, model, inputs):
        seen.append(sorted(round(value, 3) for value in inputs["advantages"].tolist()))
        return original(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spy)
    rewards = [0.0, 0.0, 0.1, 1.0, 1.0, None, 0.0, 0.5]

    def judge(ids, texts, scope):
        assert ids == ["q0"] * 4 + ["q1"] * 4
        return [RewardValue(reward) for reward in rewards]

    curve = train(tiny_base, tmp_path, settings(steps=1, drop_flat_groups=False), judge)
    assert seen == [[-1.0, -0.566, -0.566, -0.36, 0.0, 0.0, 1.0, 1.493]]
    assert curve[0]["reward"] == pytest.approx(2.6 / 7, abs=1e-5)
    assert curve[0]["flat_groups"] == 0.0


@pytest.mark.slow
def test_equal_rewards_change_nothing_make_no_nan_and_are_counted(tiny_base, tmp_path):
    import torch

    def judge(ids, texts, scope):
        return [RewardValue(0.1, {"valid": 1.0, "correct": 0.0})] * len(texts)

    for drop in (True, False):
        folder = tmp_path / str(drop)
        curve = train(tiny_base, folder, settings(samples=8, batch=16, drop_flat_groups=drop), judge)
        assert [row["flat_groups"] for row in curve] == [1.0, 1.0, 1.0]
        assert all(value == value for row in curve for value in row.values()), "NaN is unequal to itself"
        start = checkpoint.load(tiny_base)[0].state_dict()
        for name, tensor in weights(folder).items():
            assert torch.equal(tensor, start[name].half()), name


@pytest.mark.slow
def test_dropping_flat_groups_changes_no_update(tiny_base, tmp_path):
    """One of the two questions is always flat; both trainings end with the same weights."""
    import torch

    def judge(ids, texts, scope):
        return [
            RewardValue(0.1) if i == "q0" else value for i, value in zip(ids, by_length(ids, texts, ""), strict=True)
        ]

    kept = train(tiny_base, tmp_path / "kept", settings(drop_flat_groups=False), judge)
    dropped = train(tiny_base, tmp_path / "dropped", settings(drop_flat_groups=True), judge)
    assert [row["reward"] for row in kept] == [row["reward"] for row in dropped]
    start = checkpoint.load(tiny_base)[0].state_dict()
    moved = 0.0
    for name, tensor in weights(tmp_path / "kept").items():
        other = weights(tmp_path / "dropped")[name]
        moved = max(moved, (tensor.float() - start[name]).abs().max().item())
        assert torch.allclose(tensor.float(), other.float(), atol=2e-4), name
    assert moved > 1e-3, "an update that moves nothing would prove nothing"


@pytest.mark.slow
def test_the_kl_term_is_zero_at_the_start_and_grows(tiny_base, tmp_path):
    curve = train(tiny_base, tmp_path, settings(kl=0.1))
    assert curve[0]["kl"] == 0.0
    assert 0.0 < curve[-1]["kl"] < 1.0


@pytest.mark.slow
def test_smaller_passes_make_the_same_update(tiny_base, tmp_path):
    import torch

    train(tiny_base, tmp_path / "one", settings(batch=8))
    train(tiny_base, tmp_path / "four", settings(batch=2))
    for name, tensor in weights(tmp_path / "one").items():
        assert torch.allclose(tensor.float(), weights(tmp_path / "four")[name].float(), atol=2e-4), name


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(tiny_base, tmp_path):
    scopes: list[str] = []

    def judge(ids, texts, scope):
        scopes.append(scope)
        return by_length(ids, texts, scope)

    whole = train(tiny_base, tmp_path / "whole", settings(probe_samples=2), judge)
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "killed", settings(probe_samples=2), kill_at=3)
    scopes.clear()
    resumed = train(tiny_base, tmp_path / "killed", settings(probe_samples=2), judge)
    assert scopes == ["probe 0", "step 2"]
    again = train(tiny_base, tmp_path / "again", settings(probe_samples=2))
    assert whole == resumed == again
    assert len({checkpoint.digest(tmp_path / name / "out") for name in ("whole", "killed", "again")}) == 1


@pytest.mark.slow
def test_a_milestone_is_what_a_training_of_that_length_ends_with(tiny_base, tmp_path):
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "long", settings(steps=3, milestones=[1], save_every=2), kill_at=3)
    train(tiny_base, tmp_path / "long", settings(steps=3, milestones=[1], save_every=2))
    train(tiny_base, tmp_path / "short", settings(steps=1))
    kept = tmp_path / "long" / "out" / KEPT / "1"
    assert (kept / checkpoint.WEIGHTS).read_bytes() == (tmp_path / "short" / "out" / checkpoint.WEIGHTS).read_bytes()
    assert (kept / checkpoint.WEIGHTS).read_bytes() != (tmp_path / "long" / "out" / checkpoint.WEIGHTS).read_bytes()


@pytest.mark.slow
def test_every_sample_and_every_row_of_an_update_is_entered_and_a_kill_changes_no_total(
    tiny_base, tmp_path, monkeypatch
):
    """Counted a second time from what TRL is given: the judge's texts, and the masks of its loss."""
    from trl import GRPOTrainer

    drawn, trained = [], []
    loss, sample = GRPOTrainer._compute_loss, Sampler.sample

    def spy_loss(self, model, inputs):
        trained.append([int(inputs[name].sum()) for name in ("prompt_mask", "completion_mask")])
        return loss(self, model, inputs)

    def spy_sample(self, prompts, count, seed):
        groups = sample(self, prompts, count, seed)
        drawn.append([(len(group[0].prompt_ids), [len(one.ids) for one in group]) for group in groups])
        return groups

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spy_loss)
    monkeypatch.setattr(Sampler, "sample", spy_sample)
    params = settings(batch=4, steps=4, probe_samples=2, save_every=2)
    train(tiny_base, tmp_path / "whole", params)
    whole = spent(ledger_in(tmp_path / "whole"))
    groups = [group for call in drawn for group in call]
    assert whole["reinforce", "paid"] == (
        1 + 4,
        sum(len(lengths) for _, lengths in groups),
        sum(prompt for prompt, _ in groups),
        sum(sum(lengths) for _, lengths in groups),
    )
    assert whole["reinforce update", "paid"][0] == 4
    assert whole["reinforce update", "paid"][2:] == tuple(map(sum, zip(*trained, strict=True)))
    assert all(whole[phase, "paid"] == whole[phase, "alone"] for phase in ("reinforce", "reinforce update"))
    with pytest.raises(Killed):
        train(tiny_base, tmp_path / "killed", params, kill_at=3)
    before = spent(ledger_in(tmp_path / "killed"))
    train(tiny_base, tmp_path / "killed", params)
    resumed = spent(ledger_in(tmp_path / "killed"))
    for phase in ("reinforce", "reinforce update"):
        assert resumed[phase, "alone"][1:] == whole[phase, "alone"][1:]
        assert before[phase, "paid"][0] == before[phase, "alone"][0] == 3 + (phase == "reinforce")
    assert resumed["reinforce update", "paid"][0] == 5, "step 3 was done twice"
    assert resumed["reinforce", "paid"][0] == 4 + 3, "and so were its samples and the probe"


@pytest.mark.slow
def test_rows_that_the_reference_reads_for_the_kl_term_are_entered(tiny_base, tmp_path):
    train(tiny_base, tmp_path, settings(kl=0.1, steps=2, drop_flat_groups=False))
    entries = list(ledger_in(tmp_path).entries())
    parts = Counter(entry.part for entry in entries)
    assert parts == {"draw": 2, "reference": 2, "update": 2}
    tokens = Counter()
    for entry in entries:
        tokens[entry.part, entry.context.scope] = entry.paid.prompt_tokens + entry.paid.completion_tokens
    for step in ("step 0", "step 1"):
        assert tokens["reference", step] == tokens["update", step] > 0


@pytest.mark.slow
def test_fewer_open_questions_than_a_step_asks_are_asked_again(tiny_base, tmp_path):
    asked: list[str] = []

    def judge(ids, texts, scope):
        asked.extend(ids)
        return by_length(ids, texts, scope)

    curve = train(tiny_base, tmp_path, settings(steps=2, questions=3, samples=2, batch=6), judge, {"q0": PROMPTS[0]})
    assert len(curve) == 2
    assert asked == ["q0"] * 12


@pytest.mark.slow
def test_questions_that_every_sample_solves_are_left_out(tiny_base, tmp_path):
    sampler = Sampler(*checkpoint.load(tiny_base), max_tokens=2, temperature=1.0)
    share = {"q0": 1.0, "q1": 0.0, "q2": 0.5, "q3": 0.5}

    def judge(ids, texts, scope):
        place: Counter[str] = Counter()
        values = []
        for i in ids:
            place[i] += 1
            values.append(RewardValue(0.0, {"correct": float(place[i] <= 2 * share[i])}))
        return values

    order, rates = choose_questions(IDS, judge, sampler, samples=2, seed=1, bill=bill_in(tmp_path), batch=3)
    assert rates == share
    assert order == ["q2", "q1", "q3"]

    def solved(ids, texts, scope):
        return [RewardValue(1.0, {"correct": 1.0})] * len(ids)

    assert choose_questions(IDS, solved, sampler, samples=2, seed=1, bill=bill_in(tmp_path))[0] == list(IDS)
