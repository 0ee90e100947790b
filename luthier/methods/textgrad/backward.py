"""`BackwardCredit`: criticism carried backwards through the executed call graph, as TextGrad does.

TextGrad (textgrad 0.1.8): the loss is what the task said of the answer. In reverse topological order each
module's call turns what was said of its output into what is said of its instruction and of each input that some
editable module had a part in; one question to the critic each. A value that several calls used gets what all of
them said, one after the other in the order of the calls (the library keeps an unordered set). A module that nobody
complained of is not edited.

Ours: tools, `merge` and `vote` hand on what was said without a question (the library asks a model there too); a
choice counts as an input (`luthier.search.call_graph`); a run with a full score is not criticised; equal texts
on several ways count once; runs of a mini-batch advance together, so that each round is one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from luthier.harnesses.program.harness import ProgramHarness
from luthier.question import Question
from luthier.search.call_graph import CallGraph, Edge
from luthier.search.candidate import Candidate
from luthier.search.contracts import Assignment, Criticism, Evaluation, Evidence, Feedback, TextDraft
from luthier.search.critics import Critic, CriticQuestion, OfflineCritic
from luthier.search.failed_runs import FailedRun, failed_runs, gathered
from luthier.search.programs import ProgramBinding

__all__ = ["BackwardCredit", "Critic"]

_Pass = Generator[list[CriticQuestion], list[str], dict[int, str]]


@dataclass(frozen=True)
class BackwardCredit:
    """Credit by backward passes; a `luthier.search.contracts.AskingCredit`, and a plain `Credit` too.

    What evidence shows is as the scope's feedback says (`FailedRun.evidence`); which modules there is evidence for,
    hence which are edited, follows from the backward pass in each case.

    Attributes:
        program: Any program with the wiring and signatures of the candidates.
        critic: Turns criticism of an output into criticism of what it was made from.
    """

    program: ProgramHarness = field(repr=False)
    critic: Critic = field(default_factory=OfflineCritic)

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"backward, {self.critic.name}"

    def assign(
        self, component: str, evaluation: Evaluation, questions: Sequence[Question], feedback: Feedback
    ) -> list[Evidence]:
        """See `luthier.search.contracts.Credit`; the critic is told the instructions of `program`."""
        own = ProgramBinding(self.program).candidate()
        made = self.assign_all(own, [component], evaluation, questions, feedback, purpose="criticise")
        return made.evidence.get(component, [])

    def assign_all(
        self,
        candidate: Candidate,
        components: Sequence[str],
        evaluation: Evaluation,
        questions: Sequence[Question],
        feedback: Feedback,
        *,
        purpose: str,
        known: Sequence[TextDraft] | None = None,
    ) -> Assignment:
        """See `luthier.search.contracts.AskingCredit`."""
        asked = _Asked(self.critic, purpose, known)
        runs = failed_runs(self.program, evaluation, questions, feedback)
        said = asked.drive(runs, [_backward(run, candidate, frozenset(components)) for run in runs])
        return Assignment(gathered(runs, said, components, feedback), tuple(asked.criticisms))


@dataclass
class _Asked:
    """Puts the questions of all passes to the critic, round by round, and keeps what was said."""

    critic: Critic
    purpose: str
    known: Sequence[TextDraft] | None
    criticisms: list[Criticism] = field(default_factory=list)

    def drive(self, runs: Sequence[FailedRun], passes: Sequence[_Pass]) -> list[dict[int, str]]:
        """What each pass came to: criticism of the instruction, by place of the call."""
        found: list[dict[int, str]] = [{} for _ in passes]
        waiting: list[tuple[int, list[CriticQuestion]]] = []

        def advance(number: int, answers: list[str] | None) -> None:
            try:
                asks = next(passes[number]) if answers is None else passes[number].send(answers)
                waiting.append((number, asks))
            except StopIteration as end:
                found[number] = end.value

        for number in range(len(passes)):
            advance(number, None)
        while waiting:
            now, waiting[:] = list(waiting), []
            drafts = iter(self._answers([(runs[number].question.id, ask) for number, asks in now for ask in asks]))
            for number, asks in now:
                advance(number, [next(drafts) for _ in asks])
        return found

    def _answers(self, asks: Sequence[tuple[str, CriticQuestion]]) -> list[str]:
        first = len(self.criticisms)
        purposes = [f"{self.purpose}/{first + number}" for number in range(len(asks))]
        if self.known is None:
            drafts = self.critic.criticise([ask for _, ask in asks], purposes)
        else:
            # Too few are no answers: the step then differs from its row, which the log reports.
            drafts = [*self.known[first : first + len(asks)]]
            drafts += [TextDraft("")] * (len(asks) - len(drafts))
        self.criticisms += [
            Criticism(question, ask.call.place, ask.call.node, ask.about, draft.text, draft.problem)
            for (question, ask), draft in zip(asks, drafts, strict=True)
        ]
        return ["" if draft.problem else draft.text.strip() for draft in drafts]


def _backward(run: FailedRun, candidate: Candidate, editable: frozenset[str]) -> _Pass:
    """One backward pass: yields questions, is sent answers, returns criticism of instructions by place of the call."""
    graph, loss = run.graph, run.loss
    heard: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for edge in graph.ends:
        heard[edge.source].append((len(graph.calls), loss))
    own: dict[int, str] = {}
    for call in reversed(graph.calls):
        said = _joined(heard[call.place])
        if not said:
            continue
        edges = [edge for edge in call.edges if _matters(graph, edge, editable)]
        if not call.is_module:
            answers = [said] * len(edges)
        else:
            text = candidate.text(call.runs)
            asks = [CriticQuestion(graph, loss, call, said, text, edge) for edge in edges]
            if call.runs in editable:
                asks.insert(0, CriticQuestion(graph, loss, call, said, text))
            answers = (yield asks) if asks else []
            if call.runs in editable:
                own[call.place] = answers.pop(0)
        for edge, answer in zip(edges, answers, strict=True):
            if answer:
                heard[edge.source].append((call.place, answer))
    return own


def _joined(heard: Sequence[tuple[int, str]]) -> str:
    """The sum of criticisms: one after the other, by place of the call that they came from."""
    return "\n".join(dict.fromkeys(text for _, text in sorted(heard, key=lambda item: item[0])))


def _matters(graph: CallGraph, edge: Edge, editable: frozenset[str]) -> bool:
    """Whether an editable module had a part in what an edge carried."""
    behind = (graph.calls[edge.source], *graph.upstream(edge.source))
    return any(call.is_module and call.runs in editable for call in behind)
