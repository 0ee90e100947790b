"""A tiny random Llama with a tokenizer trained here (real training in seconds), and the option `--no-skips`."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

# A runner that was started in the background ignores Ctrl-C, and so would every process that a test starts and
# interrupts. Children get the default back.
signal.signal(signal.SIGINT, signal.default_int_handler)

GRAPHS = (
    "a = words(question)\nanswer = first(a)",
    "a = words(question)\nanswer = last(a)",
    "a = words(question)\nanswer = length(a)",
    "a = words(question)\nb = sort(a)\nanswer = first(b)",
    "a = words(question)\nb = sort(a)\nanswer = last(b)",
    "answer = direct(question)",
)
PROMPTS = tuple(
    f"Question: {kind} of {words}\nHarness:\n" for kind in ("first", "last") for words in ("b, a, d, c", "f, e, h, g")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "a test that skips fails: for an environment that has all that the chosen tests need"
    parser.addoption("--no-skips", action="store_true", help=help)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("no_skips"):
        report.outcome, report.longrepr = "failed", f"skipped where it must run: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder: 2 layers, hidden size 32, about 300 tokens, tied embeddings, fp32."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split("\n", "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<end>", "<pad>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*GRAPHS, *PROMPTS] * 4, trainer)
    folder = tmp_path_factory.mktemp("tiny")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
