"""`GroundedProposer`: a model writes an instruction from what the data, the program and its runs look like.

MIPRO's proposal (Opsahl-Ong et al., arXiv 2406.11695; dspy 3.4.1): a summary of the training
questions, a description of the program and of the module, runs of the module, the instruction in use and a tip drawn
from a list. All wordings are ours. Every call goes through one meter (role `proposer`).

Ours: what does not change (the views of the data, their summary, the descriptions) is asked once a search, greedily
and together, instead of once a proposal or one after another; so the calls are the number that MIPROv2 announces,
views + 1 + 1 + modules + one for each proposal. A call that the machine failed is asked again by the next proposal.
What was answered is read from the store after a restart.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from luthier.harnesses.program.harness import ProgramHarness
from luthier.harnesses.program.module import Module
from luthier.ledger.meter import Meter
from luthier.question import Question
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence, Feedback, TextDraft
from luthier.search.proposers.llm_proposer import unfenced
from luthier.target import Completion, Failure, Message, Request

TIPS: Mapping[str, str] = {
    "none": "",
    "inventive": "Try a way of putting it that is not the obvious one.",
    "short": "Use few and plain words.",
    "thorough": "State everything that somebody who does this for the first time has to know.",
    "stakes": "Say what a wrong answer would cost, so that care is taken.",
    "role": "Begin with who the reader is: a person whose profession this task is.",
}
"""MIPROv2's six kinds of tips, in our words; each is as likely."""
VIEW = 10
"""Training questions of one view of the data (MIPROv2's view_data_batch_size)."""
MAX_VIEWS = 10
"""Most views (MIPROv2's 10 calls)."""

_VIEW = """These are questions of one data set{answers}.

{questions}

Write down what they have in common: subject, form, length, what is asked for{written}, and what makes them hard. \
Two or three sentences."""
_SUMMARY = """Several readers each looked at another part of a data set and noted:

{notes}

Sum up in three sentences what the data set holds and what it takes to answer its questions."""
_PROGRAM = """This program answers questions with calls to a language model. `wiring` says which module reads what, \
`modules` holds what each one is asked.

{program}

Say in three sentences which task the program solves and how its modules share the work."""
_MODULE = """A program answers questions with calls to a language model:

{program}

Its module {module} reads {inputs} and writes {outputs}. Say in two sentences what this module has to contribute."""
_TASK = """Write the instruction for one module of a program that runs a language model.

The data: {data}

The program: {about}

The module {module} reads {inputs} and writes {outputs}. Its part: {part}

Runs of the module:
{runs}

Instruction in use:
```
{instruction}
```
{tip}
Write a better instruction. The model that follows it sees nothing but it and the module's inputs. Name no answer to a \
single question. Give the new instruction alone, between two lines of three backticks."""


class _NoAnswerError(Exception):
    """The machine failed a call that a proposal needs."""


class GroundedProposer:
    """Asks a model for one instruction at a time, grounded in data, program and runs.

    Args:
        meter: Pays; its role must be `proposer` and its ledger that of the search.
        program: Where the search starts.
        train: Training questions; the first `VIEW * MAX_VIEWS` are looked at.
        feedback: With "score" the views hold no reference answers.
        max_tokens: Longest answer of each call.
        temperature: Of the instructions; above 0 each proposal has its own seed, drawn from the search's.
        max_characters: Each text inside a prompt is cut here (ours); program texts at ten times this.

    Raises:
        InputError: the meter has another role.
    """

    def __init__(
        self,
        meter: Meter,
        program: ProgramHarness,
        train: Sequence[Question],
        *,
        feedback: Feedback = "trace",
        max_tokens: int = 512,
        temperature: float = 1.0,
        max_characters: int = 600,
    ) -> None:
        self._meter, self._program = meter, program
        meter.require_role("proposer", self.name)
        self._train = tuple(train[: VIEW * MAX_VIEWS])
        self._feedback: Feedback = feedback
        self._max_tokens, self._temperature, self._most = max_tokens, temperature, max_characters
        self._texts: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"grounded model {self._meter.target.name}"

    def propose(
        self, parent: Candidate, component: str, evidence: Sequence[Evidence], *, rng: random.Random, purpose: str
    ) -> TextDraft:
        """One instruction; the first proposal also pays for summary and descriptions.

        Raises:
            CallsExhausted: the budget does not reach.
            TargetError: the target serves nothing at all.
        """
        tip = TIPS[rng.choice(sorted(TIPS))]
        seed = rng.randrange(2**31) if self._temperature else 0
        module = self._program.module(component)
        try:
            self._ground()
            fields = {
                "data": self._texts["grounded/summary"],
                "about": self._texts["grounded/program"],
                "part": self._texts[f"grounded/module {component}"],
                "runs": "\n\n".join(self._run(item) for item in evidence) or "(none is shown)",
                "instruction": parent.text(component),
                "tip": f"\nA hint: {tip}\n" if tip else "",
            }
            text = _filled(_TASK, {**_signature(module), **fields})
            request = Request((Message("user", text),), self._max_tokens, self._temperature, seed=seed)
            return TextDraft(unfenced(self._ask({purpose: request})[purpose]))
        except _NoAnswerError as problem:
            return TextDraft("", str(problem))

    def _ground(self) -> None:
        """Ask for what is not known yet: views and descriptions together, then the summary of the views."""
        program = _cut(self._program.text, 10 * self._most)
        prompts = {f"grounded/view {number}": text for number, text in enumerate(self._views())}
        views = sorted(prompts)
        prompts["grounded/program"] = _filled(_PROGRAM, {"program": program})
        for name, module in sorted(self._program.modules.items()):
            prompts[f"grounded/module {name}"] = _filled(_MODULE, {"program": program, **_signature(module)})
        self._learn(prompts)
        notes = "\n\n".join(self._texts[view] for view in views)
        self._learn({"grounded/summary": _filled(_SUMMARY, {"notes": notes})})

    def _views(self) -> list[str]:
        told = self._feedback != "score"
        words = {"answers": ", with their answers" if told else "", "written": ", how answers look" if told else ""}
        views = []
        for start in range(0, len(self._train), VIEW):
            lines = []
            for question in self._train[start : start + VIEW]:
                lines.append(f"Question: {_cut(question.text, self._most)}")
                lines += [f"Answer: {_cut(question.reference, self._most)}"] if told else []
            views.append(_filled(_VIEW, {**words, "questions": "\n".join(lines)}))
        return views

    def _learn(self, prompts: Mapping[str, str]) -> None:
        missing = {purpose: text for purpose, text in prompts.items() if purpose not in self._texts}
        requests = {
            purpose: Request((Message("user", text),), self._max_tokens) for purpose, text in sorted(missing.items())
        }
        self._texts.update(
            {purpose: _cut(text.strip(), 2 * self._most) for purpose, text in self._ask(requests).items()}
        )

    def _ask(self, requests: Mapping[str, Request]) -> dict[str, str]:
        """Answers by purpose.

        Raises:
            _NoAnswerError: the machine failed one; what it answered is in the store.
        """
        answers = self._meter.complete(list(requests.values()), list(requests)) if requests else []
        texts: dict[str, str] = {}
        problems: list[str] = []
        for purpose, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Completion):
                texts[purpose] = answer.text
            elif isinstance(answer, Failure):
                problems.append(f"{purpose}: {answer.error}")
        if problems:
            raise _NoAnswerError(problems[0])
        return texts

    def _run(self, item: Evidence) -> str:
        lines = [f"  {name}: {_cut(value, self._most)}" for name, value in item.inputs]
        lines.append(f"  -> {_cut(item.output, self._most) or '(nothing)'}  (score {item.score:g} of 1)")
        return "\n".join([*lines, f"  remark: {_cut(item.feedback, self._most)}"] if item.feedback else lines)


def _signature(module: Module) -> dict[str, str]:
    return {"module": module.name, "inputs": ", ".join(module.inputs), "outputs": ", ".join(module.outputs)}


def _filled(template: str, fields: Mapping[str, str]) -> str:
    """The template with its fields; texts that hold braces stay as they are."""
    parts = []
    for number, piece in enumerate(template.split("{")):
        name, brace, rest = piece.partition("}")
        parts.append(fields[name] + rest if number and brace else piece)
    return "".join(parts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [cut]"
