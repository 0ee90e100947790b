"""The embedded engine on the real model: exactness, counting, constraints, scoring."""

from __future__ import annotations

import json
import random

import pytest

from luthier.errors import InputError
from luthier.target import Completion, Message, Request
from luthier.targets.openvino import OpenVinoTarget
from luthier.targets.support.weights import Prepared

pytestmark = pytest.mark.slow
WORDS = [
    "the",
    "river",
    "stone",
    "bright",
    "seven",
    "letter",
    "apple",
    "orange",
    "table",
    "lamp",
    "quick",
    "brown",
    "fox",
    "music",
    "paper",
]


def texts(target: OpenVinoTarget, requests: list[Request]) -> list[str]:
    answers = target.complete(requests)
    assert all(isinstance(answer, Completion) for answer in answers)
    return [answer.text for answer in answers if isinstance(answer, Completion)]


def mixed_requests(count: int) -> list[Request]:
    rng = random.Random(0)
    requests = []
    for number in range(count):
        prompt = " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 40)))
        temperature = 1.0 if number % 2 else 0.0
        requests.append(Request(prompt, max_tokens=rng.randint(4, 20), temperature=temperature, seed=number))
    return requests


def test_an_answer_depends_on_its_request_alone(openvino_target: OpenVinoTarget) -> None:
    requests = mixed_requests(24)
    together = texts(openvino_target, requests)
    order = list(range(24))
    random.Random(1).shuffle(order)
    shuffled = dict(zip(order, texts(openvino_target, [requests[index] for index in order]), strict=True))
    assert [shuffled[index] for index in range(24)] == together
    assert [texts(openvino_target, [request])[0] for request in requests[:8]] == together[:8]
    assert len(set(together)) == 24


def test_seeds_decide_sampled_answers(openvino_target: OpenVinoTarget) -> None:
    requests = [Request("Once upon a time", max_tokens=12, temperature=1.0, seed=seed) for seed in (1, 2, 3, 1)]
    one, two, three, again = texts(openvino_target, requests)
    assert one == again
    assert len({one, two, three}) == 3
    narrow = [Request("Once upon a time", max_tokens=12, temperature=1.0, top_p=0.001, seed=s) for s in (1, 2)]
    greedy = texts(openvino_target, [Request("Once upon a time", max_tokens=12)])
    assert set(texts(openvino_target, narrow)) == set(greedy)


def test_usage_is_the_engines_count_and_equal_requests_are_paid_once(openvino_target: OpenVinoTarget) -> None:
    request = Request("The capital of France is", max_tokens=5)
    first, again = openvino_target.complete([request, request])
    assert isinstance(first, Completion)
    assert (first.usage.calls, first.usage.prompt_tokens, first.usage.completion_tokens) == (1, 5, 5)
    assert first.finish == "length"
    assert first.text.startswith(" Paris")
    assert [attempt.problem for attempt in first.attempts] == [""]
    assert again.attempts == ()


def test_stop_strings_end_the_text_and_their_tokens_are_counted(openvino_target: OpenVinoTarget) -> None:
    whole, cut = openvino_target.complete(
        [Request("One, two, three,", max_tokens=12), Request("One, two, three,", max_tokens=12, stop=("five", " six"))]
    )
    assert isinstance(whole, Completion)
    assert isinstance(cut, Completion)
    assert (cut.text, cut.finish) == (whole.text[: whole.text.index("five")], "stop")
    assert 3 <= cut.usage.completion_tokens < whole.usage.completion_tokens


def test_chat_uses_the_models_own_template(openvino_target: OpenVinoTarget) -> None:
    plain = Request((Message("user", "Hi"),))
    own = Request((Message("system", "S"), Message("user", "Hi")))
    expected = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert openvino_target.count_tokens(plain) == openvino_target.count_tokens(Request(expected))
    assert texts(openvino_target, [plain]) == texts(openvino_target, [Request(expected)])
    assert openvino_target.count_tokens(own) < openvino_target.count_tokens(plain)


def test_choices_and_schema_bind_the_answer(openvino_target: OpenVinoTarget) -> None:
    choices = ("maybe (not)", "yes", "no")
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    schema["additionalProperties"] = False
    picked, sampled, row = texts(
        openvino_target,
        [
            Request("Is the sky blue? Answer:", max_tokens=1, choices=choices),
            Request("Is the sky blue? Answer:", choices=choices, temperature=2.0, seed=5),
            Request("A person of 30 years as JSON:", max_tokens=40, json_schema=json.dumps(schema)),
        ],
    )
    assert picked in choices
    assert sampled in choices
    assert isinstance(json.loads(row)["age"], int)


def test_choice_logprobs_prefer_the_likely_and_do_not_depend_on_company(openvino_target: OpenVinoTarget) -> None:
    paris = Request("The capital of France is", choices=(" Paris", " purple", " Paris."))
    letters = Request("One two three", choices=(" four", " table"))
    row, other = openvino_target.choice_logprobs([paris, letters])
    assert row[0] > row[1]
    assert row[0] == pytest.approx(-0.26, abs=0.1)  # transformers in fp32 says -0.26 and -16.43
    assert row[1] == pytest.approx(-16.43, abs=0.3)
    assert row[2] < row[0]
    assert other[0] > other[1]
    assert openvino_target.choice_logprobs([letters]) == [other]


def test_prompts_at_the_edges(openvino_target: OpenVinoTarget) -> None:
    empty, full = openvino_target.complete([Request("", max_tokens=2), Request("a b " * 5000, max_tokens=2)])
    assert isinstance(empty, Completion)
    assert empty.usage.prompt_tokens == 1
    assert isinstance(full, Completion)
    assert (full.text, full.finish, full.attempts) == ("", "length", ())
    assert openvino_target.complete([]) == []


def test_shared_beginnings_are_read_once_and_answers_keep_their_places(prepared: Prepared) -> None:
    target = OpenVinoTarget(prepared.gguf, "shared", share_prefixes=True)
    shots = "".join(f"Word: {word}\nAgain: {word}\n\n" for word in WORDS)
    requests = [
        Request(f"{shots}Word: {word}\nAgain:", max_tokens=4, stop=("\n",)) for word in ("lamp", "river", "fox")
    ]
    answers = target.complete([*requests, Request("The capital of France is", max_tokens=3)])
    target.close()
    texts = [answer.text.strip() for answer in answers if isinstance(answer, Completion)]
    assert texts[:3] == ["lamp", "river", "fox"]
    assert "Paris" in texts[3]


def test_fingerprint_names_what_changes_answers(prepared: Prepared) -> None:
    base = OpenVinoTarget(prepared.gguf, "a").fingerprint
    assert OpenVinoTarget(prepared.gguf, "b", batch=8).fingerprint == base
    assert OpenVinoTarget(prepared.gguf, "a", share_prefixes=True).fingerprint != base
    assert OpenVinoTarget(prepared.gguf, "a", precision="f32").fingerprint != base
    with pytest.raises(InputError, match="do not exist"):
        OpenVinoTarget(prepared.gguf.with_name("absent.gguf"), "a")
