"""`TOOLS` and `CORPUS_TOOLS`: the pure functions that a graph's tool nodes may call. No tokens, clock, files or
randomness.

The set is small and orthogonal on purpose [ours]: each tool does one thing that a small model does badly and
that a frozen answer can depend on (arithmetic, letters, order, dates, look-up), so that a chain of two says
something that no single tool says. What guards already do (compare) and what `merge` and `vote` already do
(join, majority) is left out. Inputs may be plain texts, as a model writes them; each parameter names the
parser that reads them (`luthier.tools.values`).

A corpus tool is as pure, but reads the corpus that the question names besides its inputs; the executor binds it
(docs/decisions/005-task-tools.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import Any

from luthier.tools.arithmetic import evaluate
from luthier.tools.retrieval import Corpus, render_hits
from luthier.tools.values import (
    Number,
    ToolInputError,
    Value,
    parse_date,
    parse_int,
    parse_list,
    parse_number,
    parse_numbers,
    parse_text,
    parse_word,
    render,
)

_PARSERS: dict[str, Callable[[Value], Any]] = {
    "date": parse_date,
    "int": parse_int,
    "list": parse_list,
    "number": parse_number,
    "numbers": parse_numbers,
    "text": parse_text,
    "word": parse_word,
}
_ACCEPTS: dict[str, frozenset[str]] = {
    "date": frozenset({"text"}),
    "int": frozenset({"int", "number", "text"}),
    "list": frozenset({"list", "text"}),
    "number": frozenset({"int", "number", "text"}),
    "numbers": frozenset({"int", "number", "list", "text"}),
    "text": frozenset({"bool", "dict", "int", "number", "list", "text"}),
    "word": frozenset({"int", "number", "text"}),
}
"""Which results may be readable by which parser; what is missing here can never be read (a certain mismatch)."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DEFAULT_HITS = 3
"""Passages of one `retrieve` (ours, not tuned)."""
MAX_HITS = 10
_LETTER_IN = re.compile(r"""^\s*["']?(\w)["']?\s+in\s+(.+)$""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of a tool.

    Attributes:
        name: For messages. type: Parser that reads it: date, int, list, number, numbers, text, word.
        many: The last parameter may be given several times; lists are then joined.
        optional: May be left out.
    """

    name: str
    type: str
    many: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered pure function.

    Attributes:
        name: Key in `TOOLS`. about: One line for people and for prompts.
        parameters: Inputs in order. returns: Kind of result: int, number, list or text.
        function: The function over parsed inputs.
        examples: (inputs as texts, rendered result); every one of them is a test.
        needs_corpus: The function takes the question's corpus first; `bind` gives it one.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    returns: str
    function: Callable[..., Value]
    examples: tuple[tuple[tuple[str, ...], str], ...]
    needs_corpus: bool = False

    @property
    def min_args(self) -> int:
        """Fewest inputs."""
        return sum(not parameter.optional for parameter in self.parameters)

    @property
    def max_args(self) -> int:
        """Most inputs (16 when the last parameter may repeat)."""
        return 16 if self.parameters[-1].many else len(self.parameters)

    @property
    def signature(self) -> str:
        """For example `sort(items: list) -> list`."""
        parts = [f"{p.name}: {p.type}{'...' if p.many else ''}{'?' if p.optional else ''}" for p in self.parameters]
        return f"{self.name}({', '.join(parts)}) -> {self.returns}"

    def parameter(self, index: int) -> Parameter:
        """The parameter that takes input number `index`, from 0."""
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts(self, index: int, kind: str) -> bool:
        """Whether input `index` may be a result of this kind; False only when it never can be read."""
        return kind in _ACCEPTS[self.parameter(index).type]

    def __call__(self, *args: Value) -> Value:
        """Parse the inputs and compute.

        Raises:
            ToolInputError: wrong number of inputs, one that its parser cannot read, or no corpus where it needs one.
        """
        if self.needs_corpus:
            raise ToolInputError(f"{self.name} searches the question's corpus, and this question has none")
        if not self.min_args <= len(args) <= self.max_args:
            raise ToolInputError(f"{self.signature} got {len(args)} inputs")
        parsed = [_PARSERS[self.parameter(i).type](value) for i, value in enumerate(args)]
        fixed = len(self.parameters) - 1
        if self.parameters[-1].many and len(parsed) > fixed:
            parsed[fixed:] = [[item for items in parsed[fixed:] for item in items]]
        return self.function(*parsed)

    def bind(self, corpus: Corpus) -> Tool:
        """The same tool over one corpus; a tool that needs none is itself."""
        if not self.needs_corpus:
            return self
        return replace(self, function=partial(self.function, corpus), needs_corpus=False)


def _count(first: str, second: str = "") -> int:
    """Occurrences of one letter, upper and lower case alike; `count("r in strawberry")` or two inputs."""
    if not second:
        match = _LETTER_IN.match(first)
        if match is None:
            raise ToolInputError(f'count needs "<letter> in <text>", got {first[:60]!r}')
        first, second = match.group(1), match.group(2)
    letter = first.strip(" \"'")
    if len(letter) != 1:
        raise ToolInputError(f"count needs one letter, got {first[:60]!r}")
    return second.casefold().count(letter.casefold())


def _length(text: str) -> int:
    """Items of a list, or letters and digits of a single word or sentence."""
    if "," in text or "\n" in text:
        return len(parse_list(text))
    return sum(character.isalnum() for character in text)


def _end(items: Sequence[str], index: int) -> str:
    if not items:
        raise ToolInputError("the list is empty")
    return items[index]


def _whole(numbers: Sequence[Number], name: str) -> list[int]:
    if not numbers or any(number.denominator != 1 for number in numbers):
        raise ToolInputError(f"{name} needs whole numbers, got {render(list(numbers))!r}")
    return [int(number) for number in numbers]


def _lcm(numbers: Sequence[Number]) -> int:
    result = 1
    for number in _whole(numbers, "lcm"):
        result = math.lcm(result, number)
        if result.bit_length() > 4096:
            raise ToolInputError("the least common multiple is too large")
    return result


def _extreme(numbers: Sequence[Number], pick: Callable[[Sequence[Number]], Number]) -> Number:
    if not numbers:
        raise ToolInputError("the list is empty")
    return pick(numbers)


def _square(number: Number) -> Number:
    if max(abs(number.numerator), number.denominator).bit_length() > 2048:
        raise ToolInputError("the number is too large")
    return number * number


def _add_days(day: date, days: int) -> str:
    try:
        return (day + timedelta(days=days)).isoformat()
    except OverflowError as error:
        raise ToolInputError(f"{days} days from {day} is outside the calendar") from error


def _search(text: str, query: str) -> str:
    """The sentence that shares most distinct words with the query; the earliest one on a tie."""
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+|\n+", text) if s.strip()]
    wanted = set(re.findall(r"\w+", query.casefold()))
    overlaps = [len(wanted & set(re.findall(r"\w+", sentence.casefold()))) for sentence in sentences]
    if not overlaps or max(overlaps) == 0:
        raise ToolInputError(f"no sentence shares a word with {query[:60]!r}")
    return sentences[overlaps.index(max(overlaps))]


def _retrieve(corpus: Corpus, query: str, count: int = DEFAULT_HITS) -> str:
    """The passages as text, one a line; empty when no passage shares a word with the query."""
    if not 1 <= count <= MAX_HITS:
        raise ToolInputError(f"retrieve gives 1 to {MAX_HITS} passages, {count} asked for")
    return render_hits(corpus.search(query, count))


def _tool(
    name: str,
    about: str,
    parameters: str,
    returns: str,
    function: Callable[..., Value],
    *examples: tuple[tuple[str, ...], str],
) -> Tool:
    """`parameters` is written as in a signature: "text: text, query: text?", "numbers: numbers..."."""
    parsed = []
    for item in parameters.split(", "):
        label, kind = item.split(": ")
        parsed.append(Parameter(label, kind.rstrip(".?"), many=kind.endswith("..."), optional=kind.endswith("?")))
    return Tool(name, about, tuple(parsed), returns, function, examples)


_ALL = (
    _tool("add_days", "the date a number of days later", "day: date, days: int", "text", _add_days,
          (("2024-02-28", "2"), "2024-03-01"), (("2024-01-01", "-1"), "2023-12-31")),
    _tool("calculate", "value of an arithmetic expression, exact", "expression: text", "number", evaluate,
          (("(3 + 4) * 2",), "14"), (("1 / 4",), "0.25"), (("2^10 - 1 =",), "1023"), (("1/3",), "1/3")),
    _tool("copy", "the value itself", "value: text", "text", lambda text: text, (("unchanged",), "unchanged")),
    _tool("count", "how often a letter occurs in a text", "letter: text, text: text?", "int", _count,
          (("r in strawberry",), "3"), (("e", "Every bee"), "4")),
    _tool("days_between", "days from the first date to the second", "start: date, end: date", "int",
          lambda start, end: (end - start).days,
          (("2024-02-28", "2024-03-01"), "2"), (("2024-01-02", "2024-01-01"), "-1")),
    _tool("first", "first item of a list", "items: list", "text", lambda items: _end(items, 0),
          (("pear, fig, apple",), "pear")),
    _tool("gcd", "greatest common divisor", "numbers: numbers...", "int",
          lambda numbers: math.gcd(*_whole(numbers, "gcd")), (("12, 18",), "6"), (("12", "18", "8"), "2")),
    _tool("largest", "largest of the numbers", "numbers: numbers...", "number", lambda n: _extreme(n, max),
          (("3, 12, 7.5",), "12")),
    _tool("last", "last item of a list", "items: list", "text", lambda items: _end(items, -1),
          (("pear, fig, apple",), "apple")),
    _tool("lcm", "least common multiple", "numbers: numbers...", "int", _lcm, (("4, 6",), "12"), (("4", "6"), "12")),
    _tool("length", "letters of a word, or items of a list", "text: text", "int", _length,
          (("apple",), "5"), (("pear, fig",), "2")),
    _tool("lower", "the text in lower case", "text: text", "text", lambda text: text.lower(), (("Ab C",), "ab c")),
    _tool("number", "last number in a text", "text: text", "number", lambda text: _end_number(text),
          (("so 3 and 4 make 7.0.",), "7"), (("about 1,234 people",), "1234")),
    _tool("reverse", "a word spelled backward", "word: word", "text", lambda word: word[::-1], (("apple",), "elppa")),
    _tool("search", "the sentence that shares most words with the query", "text: text, query: text", "text", _search,
          (("Ann has a cat. Bob has a dog.", "who has the dog"), "Bob has a dog.")),
    _tool("smallest", "smallest of the numbers", "numbers: numbers...", "number", lambda n: _extreme(n, min),
          (("3, 12, 7.5",), "3")),
    _tool("sort", "the words in alphabetical order", "items: list", "list",
          lambda items: sorted(items, key=lambda item: (item.casefold(), item)),
          (("pear, fig, apple",), "apple, fig, pear")),
    _tool("square", "a number times itself", "number: number", "number", _square, (("12",), "144"), (("0.5",), "0.25")),
    _tool("sum", "sum of the numbers", "numbers: numbers...", "number", lambda n: sum(n, Number(0)),
          (("3, 4, 5",), "12"), (("0.1, 0.2",), "0.3")),
    _tool("unique", "the list without repeated items", "items: list", "list", lambda items: list(dict.fromkeys(items)),
          (("a, b, a",), "a, b")),
    _tool("upper", "the text in capitals", "text: text", "text", lambda text: text.upper(), (("Ab c",), "AB C")),
    _tool("weekday", "day of the week of a date", "day: date", "text", lambda day: _DAYS[day.weekday()],
          (("2024-05-17",), "Friday"), (("on 2024-05-17?",), "Friday")),
)  # fmt: skip


def _end_number(text: str) -> Number:
    numbers = parse_numbers(text)
    return numbers[-1]


TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
"""Every tool that computes from its inputs alone, by name, sorted by name."""

CORPUS_TOOLS: dict[str, Tool] = {
    "retrieve": Tool(
        name="retrieve",
        about=f"the best passages of the question's corpus for a query ({DEFAULT_HITS} unless told)",
        parameters=(Parameter("query", "text"), Parameter("count", "int", optional=True)),
        returns="text",
        function=_retrieve,
        examples=(),
        needs_corpus=True,
    )
}
"""Tools that also read the question's corpus, by name. Apart from `TOOLS`: most questions have no corpus, so random
graphs, variations and the descriptions given to generators do not use them."""

ALL_TOOLS: dict[str, Tool] = dict(sorted({**TOOLS, **CORPUS_TOOLS}.items()))
"""What a tool node may be called; a graph may name all of them."""
