"""The sampler against the plain model: greedy text, padding, seeds, frequencies and stored log-probabilities."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from luthier.training import checkpoint
from luthier.training.sampler import Sampler
from tests.conftest import PROMPTS

SHORT, LONG = "Question: last\nHarness:\n", PROMPTS[0] * 3


@pytest.fixture(scope="module")
def loaded(tiny_base):
    return checkpoint.load(tiny_base)


def sampler_of(loaded, *, temperature=1.0, max_tokens=6) -> Sampler:
    return Sampler(*loaded, max_tokens=max_tokens, temperature=temperature)


def bf16_copy(model):
    import copy

    import torch

    return copy.deepcopy(model).to(torch.bfloat16).eval()


def greedy(model, tokenizer, prompt: str, count: int) -> list[int]:
    """Argmax decoding that reads the whole text again for every token: no cache, no padding."""
    import torch

    ids = tokenizer(prompt)["input_ids"]
    new: list[int] = []
    while len(new) < count:
        with torch.no_grad():
            new.append(int(model(torch.tensor([ids + new])).logits[0, -1].argmax()))
        if new[-1] == tokenizer.eos_token_id:
            break
    return new


@pytest.mark.slow
def test_near_temperature_zero_every_sample_is_the_greedy_text_whatever_the_padding(loaded):
    model, tokenizer = loaded
    writer = bf16_copy(model)
    sampler = sampler_of(loaded, temperature=1e-4)
    prompts = [SHORT, LONG, PROMPTS[1]]
    expected = [greedy(writer, tokenizer, prompt, 6) for prompt in prompts]
    together = sampler.sample(prompts, 2, seed=1)
    assert [[sample.ids for sample in group] for group in together] == [[ids, ids] for ids in expected]
    alone = [sampler.sample([prompt], 1, seed=1)[0][0].ids for prompt in prompts]
    assert alone == expected


@pytest.mark.slow
def test_equal_seeds_give_equal_samples_and_others_do_not(loaded):
    sampler = sampler_of(loaded)
    first = sampler.sample(list(PROMPTS), 3, seed=5)
    assert sampler.sample(list(PROMPTS), 3, seed=5) == first
    assert sampler.sample(list(PROMPTS), 3, seed=6) != first
    assert [len(group) for group in first] == [3] * len(PROMPTS)


@pytest.mark.slow
def test_first_tokens_follow_the_softmax_at_the_temperature(loaded):
    """4,000 draws of one token: every frequency within five standard errors of its probability."""
    import torch

    model, tokenizer = loaded
    with torch.no_grad():
        logits = bf16_copy(model)(torch.tensor([tokenizer(SHORT)["input_ids"]])).logits[0, -1].float()
    expected = (logits / 0.1).softmax(-1)
    assert expected.max() < 0.9, "a peaked distribution would prove nothing"
    draws = [s.ids[0] for s in sampler_of(loaded, temperature=0.1, max_tokens=1).sample([SHORT], 4000, seed=2)[0]]
    counts = Counter(draws)
    for token, probability in enumerate(expected.tolist()):
        error = math.sqrt(probability * (1 - probability) / len(draws))
        assert abs(counts[token] / len(draws) - probability) <= 5 * error + 1 / len(draws), token


@pytest.mark.slow
def test_stored_log_probabilities_are_those_of_the_drawn_tokens_at_the_temperature(loaded):
    import torch

    model, tokenizer = loaded
    writer = bf16_copy(model)
    for sample in sampler_of(loaded, temperature=1.3).sample([SHORT], 3, seed=4)[0]:
        assert sample.prompt_ids == tokenizer(SHORT)["input_ids"]
        with torch.no_grad():
            logits = writer(torch.tensor([sample.prompt_ids + sample.ids])).logits[0].float() / 1.3
        start = len(sample.prompt_ids) - 1
        expected = [logits[start + i].log_softmax(-1)[token].item() for i, token in enumerate(sample.ids)]
        assert sample.logprobs == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
def test_a_sample_ends_with_the_end_token_and_its_text_leaves_it_out(tiny_base):
    """The end token is made the likeliest one, so that texts end at once."""
    import torch

    model, tokenizer = checkpoint.load(tiny_base)
    sampler = Sampler(model, tokenizer, max_tokens=6, temperature=1e-4)
    before = sampler.sample([SHORT], 1, seed=0)[0][0]
    assert len(before.ids) == 6
    with torch.no_grad():
        hidden = model.model(torch.tensor([before.prompt_ids])).last_hidden_state[0, -1]
        model.lm_head.weight[tokenizer.eos_token_id] = hidden * 10
    assert sampler.sample([SHORT], 1, seed=0)[0][0] == before, "the writer is a copy until it is refreshed"
    sampler.refresh()
    after = sampler.sample([SHORT], 2, seed=0)[0]
    assert [sample.ids for sample in after] == [[tokenizer.eos_token_id]] * 2
    assert [sampler.text(sample) for sample in after] == ["", ""]


def test_one_uniform_number_decides_a_row():
    """Probabilities 1/2, 1/4, 0, 1/4: the unit interval is cut at 1/2 and 3/4, and the third token is never drawn."""
    import torch

    from luthier.training.sampler import draw

    logits = torch.tensor([0.5, 0.25, 0.0, 0.25]).log().expand(7, 4)
    tokens, logprobs = draw(logits, torch.tensor([0.0, 0.49, 0.51, 0.74, 0.76, 0.9, 0.9999999]))
    assert tokens.tolist() == [0, 0, 1, 1, 3, 3, 3]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25])
