"""What is evidently wrong in a run, told from its values alone (ours, offline: no model is asked, no paper says so).

A fault is evident when a call's own values show it: an output that could not be read, a text that broke off, a
word for a guard with something around it, the right answer lost or wrapped, something that the task's sentence
quotes. A fault that has another one before it is its consequence and not counted. When nothing is evident, the
suspects are the call that first wrote the wrong answer and all calls before it; those that passed it on are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from luthier.search.call_graph import Call, CallGraph

LONG_ANSWER = 40
"""Words from which on an answer is evidently too long."""
_QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"")
_WANTED = re.compile(r"expect|should|correct|right|want|need", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quotes:
    """The texts that a task's sentence quotes: what it wanted, and what else it names (less the answer itself)."""

    wanted: tuple[str, ...]
    named: tuple[str, ...]


def quotes(sentence: str, answer: str) -> Quotes:
    """Read a sentence. What stands before a quote, up to the quote before it, tells whether it was wanted."""
    wanted: list[str] = []
    named: list[str] = []
    given = " ".join(answer.split())
    start = 0
    for match in _QUOTED.finditer(sentence):
        text = (match.group(1) or match.group(2)).strip()
        if text and _WANTED.search(sentence[start : match.start()]):
            wanted.append(text)
        elif text and not (given and (stands_in(text, given) or stands_in(given, text))):
            named.append(text)
        start = match.end()
    return Quotes(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(named)))


def evident_faults(graph: CallGraph, sentence: str) -> dict[int, str]:
    """What is evidently wrong, by place of the module's call; of faults that follow from each other the first alone."""
    said = quotes(sentence, graph.answer)
    found = {call.place: text for call in graph.leading() if call.is_module and (text := _fault(graph, call, said))}
    return {
        place: text
        for place, text in found.items()
        if not any(earlier.place in found for earlier in graph.upstream(place))
    }


def blame(graph: CallGraph, sentence: str) -> dict[int, str]:
    """What to tell each module's call that is to blame, by place: its evident fault, else the sentence for suspects."""
    faults = evident_faults(graph, sentence)
    if faults:
        return {place: f"{text} {sentence}".strip() for place, text in faults.items()}
    return {call.place: sentence for call in suspects(graph)}


def suspects(graph: CallGraph) -> tuple[Call, ...]:
    """The module calls that may have made the answer wrong when nothing is evident, in order."""
    calls = [call for call in graph.leading() if call.is_module]
    wrote = [call for call in calls if graph.answer and stands_in(graph.answer, call.output)]
    if not wrote:
        return tuple(calls)
    before = {call.place for call in graph.upstream(wrote[0].place)} | {wrote[0].place}
    return tuple(call for call in calls if call.place in before or _chose(graph, call))


def stands_in(part: str, text: str) -> bool:
    """Whether a text holds another one as whole words, in any case."""
    return re.search(rf"(?<!\w){re.escape(part.strip())}(?!\w)", text, re.IGNORECASE) is not None


def _fault(graph: CallGraph, call: Call, said: Quotes) -> str:
    if call.unread:
        return f"Nothing could be read as {' and '.join(call.unread)}."
    if call.cut:
        return "The text broke off: it is as long as it may become."
    return (
        _misspelt_choice(graph, call)
        or _lost(graph, call, said.wanted)
        or _wrapped(graph, call, said.wanted)
        or next((f"The remark names '{text}', which it wrote." for text in said.named if _first(graph, call, text)), "")
    )


def _misspelt_choice(graph: CallGraph, call: Call) -> str:
    """A word that a guard looks for, with something else around it."""
    for edge in [*(edge for later in graph.calls for edge in later.edges), *graph.ends]:
        if edge.source == call.place and edge.exact and edge.value not in edge.known:
            for text in edge.known:
                if stands_in(text, edge.value):
                    return f"It wrote '{edge.value}' where the program looks for '{text}' and nothing else."
    return ""


def _lost(graph: CallGraph, call: Call, wanted: Sequence[str]) -> str:
    for edge in call.edges:
        if edge.role == "value" and graph.calls[edge.source].is_module:
            for text in wanted:
                if stands_in(text, edge.value) and not stands_in(text, call.output):
                    return f"'{text}' stood in {edge.name} and was lost."
    return ""


def _wrapped(graph: CallGraph, call: Call, wanted: Sequence[str]) -> str:
    """Too much text in what becomes the answer."""
    if not _is_last(graph, call.place):
        return ""
    for text in wanted:
        if stands_in(text, call.output) and text.casefold() != call.output.strip().casefold():
            return f"The right text '{text}' stands inside a longer one."
    words = len(call.output.split())
    return f"It wrote {words} words where the answer alone is wanted." if words > LONG_ANSWER else ""


def _is_last(graph: CallGraph, place: int) -> bool:
    """Whether a call's output reaches the answer through tools alone."""
    reached = {edge.source for edge in graph.ends if edge.role == "value"}
    for call in reversed(graph.calls):
        if call.place in reached and not call.is_module:
            reached |= {edge.source for edge in call.edges if edge.role == "value"}
    return place in reached


def _first(graph: CallGraph, call: Call, text: str) -> bool:
    """Whether a call was the first to write a text that it had not read."""
    if not stands_in(text, call.output) or any(stands_in(text, value) for _, value in call.inputs):
        return False
    return not any(stands_in(text, earlier.output) for earlier in graph.upstream(call.place))


def _chose(graph: CallGraph, call: Call) -> bool:
    """Whether a choice that led to the answer looked at what a call wrote."""
    places = {item.place for item in graph.leading()}
    later = [edge for item in graph.calls if item.place in places for edge in item.edges]
    return any(edge.source == call.place and edge.role == "choice" for edge in (*later, *graph.ends))
