"""The fallback engine on the real model: same contract, checked against transformers itself and OpenVINO."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import AutoModelForCausalLM

from luthier.errors import InputError
from luthier.target import Completion, Message, Request
from luthier.targets.openvino import OpenVinoTarget
from luthier.targets.support.weights import Prepared
from luthier.targets.transformers import TransformersTarget

pytestmark = pytest.mark.slow
PROMPTS = ["Once upon a time", "The capital of France is", "One, two, three,", "Water is made of hydrogen and"]


@pytest.fixture(scope="module")
def target(prepared: Prepared) -> Iterator[TransformersTarget]:
    target = TransformersTarget(prepared.hf, "embedded", precision="f32", batch=3)
    yield target
    target.close()


def completions(target: TransformersTarget, requests: list[Request]) -> list[Completion]:
    answers = target.complete(requests)
    assert all(isinstance(answer, Completion) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Completion)]


def test_greedy_answers_are_those_of_generate(target: TransformersTarget, prepared: Prepared) -> None:
    model = AutoModelForCausalLM.from_pretrained(prepared.hf, dtype=torch.float32)
    answers = completions(target, [Request(prompt, max_tokens=6) for prompt in PROMPTS])
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        ids = torch.tensor([target._encode(prompt)])
        new = model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
        assert answer.text == target._tokenizer.decode(new, skip_special_tokens=True)
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (ids.shape[1], len(new))


def test_order_does_not_matter_and_seeds_decide(target: TransformersTarget) -> None:
    requests = [Request(prompt, max_tokens=6, temperature=1.0, seed=seed) for prompt in PROMPTS for seed in (1, 2)]
    texts = [answer.text for answer in completions(target, requests)]
    assert [answer.text for answer in completions(target, requests[::-1])] == texts[::-1]
    assert sum(texts[2 * place] != texts[2 * place + 1] for place in range(len(PROMPTS))) >= 3
    narrow = Request(PROMPTS[0], max_tokens=6, temperature=1.0, top_p=0.001, seed=5)
    assert completions(target, [narrow])[0].text == completions(target, [Request(PROMPTS[0], max_tokens=6)])[0].text


def test_stop_choices_templates_and_edges(target: TransformersTarget, openvino_target: OpenVinoTarget) -> None:
    chat = Request((Message("user", "Hi"),), max_tokens=1)
    stop = Request(PROMPTS[2], max_tokens=12, stop=("five",))
    pick = Request("Is the sky blue? Answer:", max_tokens=1, choices=("maybe (not)", "yes", "no"))
    empty, full = Request("", max_tokens=1), Request("a b " * 5000, max_tokens=1)
    answers = completions(target, [chat, stop, pick, empty, full, stop])
    assert target.count_tokens(chat) == openvino_target.count_tokens(chat)
    assert (answers[1].text, answers[1].finish) == (" four, ", "stop")
    assert answers[2].text in pick.choices
    assert answers[3].usage.prompt_tokens == 1
    assert (answers[4].text, answers[4].finish, answers[4].attempts) == ("", "length", ())
    assert (answers[5].text, answers[5].attempts) == (answers[1].text, ())
    with pytest.raises(InputError, match="json_schema"):
        target.complete([Request("a", json_schema="{}")])


def test_choice_scores_agree_with_the_other_engine(target: TransformersTarget, openvino_target: OpenVinoTarget) -> None:
    requests = [
        Request("The capital of France is", choices=(" Paris", " purple", " Paris, of")),
        Request("One two three", choices=(" four", " table and chair")),
    ]
    rows = target.choice_logprobs(requests)
    assert rows[0][:2] == pytest.approx((-0.26, -16.43), abs=0.02)
    for mine, other in zip(rows, openvino_target.choice_logprobs(requests), strict=True):
        assert mine == pytest.approx(other, abs=0.5)


def test_both_engines_split_text_alike(target: TransformersTarget, openvino_target: OpenVinoTarget) -> None:
    for text in (
        "  two  spaces\n\n12345 x",
        "I'm 3.5\n\n\n7²",
        "<|im_start|>user\nÜñï 你好 🎉<|im_end|>\n",
        '\t{"a": [1]}',
    ):
        assert target._encode(text) == openvino_target._encode(text)


@pytest.mark.gpu
def test_the_same_contract_on_cuda(prepared: Prepared) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    target = TransformersTarget(prepared.hf, "embedded", device="cuda")
    requests = [Request(prompt, max_tokens=8, temperature=1.0, seed=1) for prompt in PROMPTS]
    assert [a.text for a in completions(target, requests)] == [a.text for a in completions(target, requests)]
    assert completions(target, [Request(PROMPTS[1], max_tokens=2)])[0].text.startswith(" Paris")
    target.close()


def test_a_missing_device_is_named(prepared: Prepared) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(InputError, match="no CUDA device"):
        TransformersTarget(prepared.hf, "embedded", device="cuda").complete([Request("a")])
