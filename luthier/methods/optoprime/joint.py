"""`Joint`: one proposal for all modules at once, from one report of a step.

The step of Trace's OptoPrime (trace-opt 0.1.3.8) in the loop of `luthier.search.reflective`. A model writes all
texts in one answer (`ModelOptimizer`); any other proposer is asked module by module for those that the credit
blames (`EachOf`), and its texts are judged as one proposal too.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from luthier.harnesses.program.harness import ProgramHarness
from luthier.methods.optoprime.report_graph import Reporter, tries_of
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evaluation, Evidence, JointDraft, JointProposer, Proposer
from luthier.search.proposers.llm_proposer import ModelProposer
from luthier.search.reflective import Reflective
from luthier.search.session import Session
from luthier.target import Failure, Message, Request

_SYSTEM = """You improve a program that runs a language model. Its parameters are instructions, one for each call of \
the model; nothing else of it can change. You are shown the parameters, the code that ran, what each run did with \
what result, and what was tried before. Find out which parameters made the results worse than they could be, and \
write better ones. An instruction has to help with other questions of this kind, so it must not hold an answer to \
one of these; whoever reads it sees that instruction and the inputs of the call, and nothing else. Keep to the \
stated lengths."""
_FORM = """Answer with one JSON object: under the name of each parameter that shall change, its whole new text. \
Leave out the parameters that stay as they are. To change nothing answer {}."""


@dataclass(frozen=True)
class Joint(Reflective):
    """A search that edits all modules together.

    The proposer of a `luthier.search.proposers.llm_proposer.ModelProposer` is its model: it is asked with the report.

    Attributes:
        program: Any program with the wiring and signatures of the candidates.
        memory: Earlier tries that the report shows.
        max_tokens: Longest answer of a model (OptoPrime: 4096).
    """

    program: ProgramHarness = field(kw_only=True, repr=False)
    memory: int = field(default=5, kw_only=True)
    max_tokens: int = field(default=4096, kw_only=True)

    def settings(self) -> Mapping[str, Any]:
        """See `luthier.search.session.Search`."""
        return {**super().settings(), "optimizer": self.optimizer.name, "memory": self.memory}

    @property
    def optimizer(self) -> JointProposer:
        """Who writes the texts."""
        if isinstance(self.proposer, ModelProposer):
            return ModelOptimizer(self.proposer, self.max_tokens)
        return EachOf(self.proposer)

    def child(self, session: Session, parent: Candidate, turn: int, before: Evaluation) -> Candidate:
        """One proposal for all modules; the parent itself when it was not usable."""
        by_id = {question.id: question for question in session.train}
        questions = [by_id[row.question] for row in before.executions]
        found = session.assign(self.credit, session.scope.components, parent, before)
        evidence = {name: items for name, items in found.items() if items}
        tries = tries_of(session.log.rows, self.memory)
        report = Reporter(self.program).report(parent, before, questions, session.scope, tries)
        return session.propose_jointly(self.optimizer, parent, evidence, report)


@dataclass(frozen=True, slots=True)
class EachOf:
    """Asks a proposer for each component that there is evidence for, and makes one proposal of the answers (ours)."""

    proposer: Proposer

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"each of {self.proposer.name}"

    def propose_all(
        self,
        parent: Candidate,
        components: Sequence[str],
        evidence: Mapping[str, Sequence[Evidence]],
        report: str,
        *,
        rng: random.Random,
        purpose: str,
    ) -> JointDraft:
        """See `JointProposer`. The first component that the machine fails ends the proposal. It reads no report."""
        texts: dict[str, str] = {}
        for name in components:
            if name in evidence:
                own = f"{purpose}/{name}"
                draft = self.proposer.propose(parent, name, evidence[name], rng=rng, purpose=own)
                if draft.problem:
                    return JointDraft({}, draft.problem)
                texts[name] = draft.text
        return JointDraft(texts)


@dataclass(frozen=True, slots=True)
class ModelOptimizer:
    """Asks a model once for all texts. One call is one proposal: what cannot be read is counted, and not asked again.

    Attributes:
        proposer: Whose meter pays (role proposer), and whose temperature holds.
        max_tokens: Longest answer.
    """

    proposer: ModelProposer
    max_tokens: int = 4096

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"optimizer, {self.proposer.name}"

    def propose_all(
        self,
        parent: Candidate,
        components: Sequence[str],
        evidence: Mapping[str, Sequence[Evidence]],
        report: str,
        *,
        rng: random.Random,
        purpose: str,
    ) -> JointDraft:
        """See `JointProposer`; the report says everything, so the evidence is not shown again.

        Raises:
            CallsExhausted: the budget does not reach.
            TargetError: the target serves nothing at all.
        """
        temperature = self.proposer.temperature
        seed = rng.randrange(2**31) if temperature else 0
        messages = (Message("system", _SYSTEM), Message("user", f"{report}\n\n# Wanted\n\n{_FORM}"))
        request = Request(messages, self.max_tokens, temperature, seed=seed)
        answer = self.proposer.meter.complete([request], [purpose])[0]
        return JointDraft({}, str(answer.error)) if isinstance(answer, Failure) else read_texts(answer.text, components)


def read_texts(answer: str, components: Sequence[str]) -> JointDraft:
    """The texts in an answer: of its JSON objects the last that names a component, also inside another object.

    An empty object is a proposal to change nothing. Line breaks inside of strings are allowed, other names ignored.
    """
    objects = list(_objects(answer))
    for item in reversed(objects):
        for inner in (item, *(value for value in item.values() if isinstance(value, dict))):
            texts = {name: inner[name] for name in components if isinstance(inner.get(name), str)}
            if texts:
                return JointDraft(texts)
    if {} in objects:
        return JointDraft({})
    known = ", ".join(components)
    return JointDraft({}, unread=f"no JSON object with a text for one of {known}: {answer[:200]!r}")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text that are not inside of another one."""
    decoder = json.JSONDecoder(strict=False)
    place = 0
    while match := re.compile(r"\{").search(text, place):
        try:
            value, place = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            place = match.end()
            continue
        if isinstance(value, dict):
            yield value
