"""`ModelProposer`: a model reads what went wrong and writes a better instruction (role `proposer`, in the ledger).

The reflective proposal of GEPA (arXiv 2507.19457; structure as in gepa 0.1.4, the wording is ours): current
instruction, runs with inputs, outputs and feedback, then the request for a new instruction in one fenced block.
An answer without a fence counts as a whole, as in gepa 0.1.4; of several blocks the last one counts (ours).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from luthier.ledger.meter import Meter
from luthier.search.candidate import Candidate
from luthier.search.contracts import Evidence, TextDraft
from luthier.target import Failure, Message, Request

_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_TASK = """You improve one instruction inside a program that runs a language model. The component is called {component}.

Instruction in use:
```
{instruction}
```

What happened when the program ran with it, one training question at a time:

{runs}

Write a replacement for the instruction. Keep what leads to full scores. State what the inputs look like, what
has to be done with them and how the answer must be written. Put in every fact from the remarks that will be
useful for other questions of this kind, and no answer to a single question. The model that reads it sees
nothing but your instruction and the inputs.
Give the new instruction alone, between two lines of three backticks."""


@dataclass(frozen=True)
class ModelProposer:
    """Asks a model for one instruction at a time.

    Attributes:
        meter: Pays; its role must be `proposer` and its ledger that of the search.
        max_tokens: Longest answer.
        temperature: Of the proposer; above 0 each proposal has its own seed, drawn from the search's.
        max_characters: Each input, output and remark is cut here, so that a prompt cannot grow without bound (ours).

    Raises:
        InputError: the meter has another role.
    """

    meter: Meter
    max_tokens: int = 512
    temperature: float = 1.0
    max_characters: int = 1500

    def __post_init__(self) -> None:
        self.meter.require_role("proposer", self.name)

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"model {self.meter.target.name}"

    def propose(
        self, parent: Candidate, component: str, evidence: Sequence[Evidence], *, rng: random.Random, purpose: str
    ) -> TextDraft:
        """One call. A machine that fails gives a draft with a problem.

        Raises:
            CallsExhausted: the budget does not reach.
            TargetError: the target serves nothing at all.
        """
        text = reflection(parent, component, evidence, self.max_characters)
        seed = rng.randrange(2**31) if self.temperature else 0
        request = Request((Message("user", text),), self.max_tokens, self.temperature, seed=seed)
        answer = self.meter.complete([request], [purpose])[0]
        return TextDraft("", str(answer.error)) if isinstance(answer, Failure) else TextDraft(unfenced(answer.text))


def reflection(parent: Candidate, component: str, evidence: Sequence[Evidence], max_characters: int) -> str:
    """The prompt: instruction, runs and request."""
    runs = "\n\n".join(_run(number, item, max_characters) for number, item in enumerate(evidence, start=1))
    fields = {"component": component, "instruction": parent.text(component), "runs": runs or "(no run is shown)"}
    # Not str.format, nor one replacement after another: instructions and runs may hold braces.
    return re.sub(r"\{(component|instruction|runs)\}", lambda match: fields[match.group(1)], _TASK)


def unfenced(text: str) -> str:
    """The last fenced block of an answer, or the whole answer when there is none; a fence left open runs to the end."""
    blocks = _FENCE.findall(text)
    if blocks:
        return str(blocks[-1]).strip()
    _, fence, rest = text.partition("```")
    return (rest.partition("\n")[2] if fence and "\n" in rest else text.replace("```", "")).strip()


def _run(number: int, item: Evidence, most: int) -> str:
    lines = [f"Run {number}, score {item.score:g} of 1"]
    lines += [f"  {name}: {_cut(value, most)}" for name, value in item.inputs]
    lines.append(f"  output: {_cut(item.output, most) or '(nothing)'}")
    if item.feedback:
        lines.append(f"  remark: {_cut(item.feedback, most)}")
    return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [cut]"
