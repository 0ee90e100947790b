"""`Candidate`: what a search edits. Texts and demonstrations by component name, frozen, with a content digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from luthier.errors import InputError
from luthier.files import digest_text


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One worked example for one component. A candidate for a good step, no proof of one.

    Attributes:
        question: Id of the training question that it stems from; a run on that question leaves it out.
        inputs: Name and text of each input, in order.
        output: What the component wrote, or the reference.
        source: "bootstrapped" (from a successful execution) or "labelled" (from a reference).
    """

    question: str
    inputs: tuple[tuple[str, str], ...]
    output: str
    source: Literal["bootstrapped", "labelled"]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Demonstration:
        """Inverse of `dataclasses.asdict` after JSON."""
        return cls(row["question"], tuple((k, v) for k, v in row["inputs"]), row["output"], row["source"])


@dataclass(frozen=True)
class Candidate:
    """What a search edits: a text and demonstrations for each component. Make it with `make`.

    Attributes:
        texts: Component name and its text, sorted by name.
        demonstrations: Component name and its demonstrations, sorted by name; components without any are absent.
        parents: Digests of what it was made from; not part of its identity.
    """

    texts: tuple[tuple[str, str], ...]
    demonstrations: tuple[tuple[str, tuple[Demonstration, ...]], ...] = ()
    parents: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def make(
        cls,
        texts: Mapping[str, str],
        demonstrations: Mapping[str, Sequence[Demonstration]] | None = None,
        parents: Sequence[str] = (),
    ) -> Candidate:
        """Build a candidate from mappings.

        Raises:
            InputError: no component, or demonstrations for a component that has no text.
        """
        if not texts:
            raise InputError("field texts: no component", where="candidate", fix="name at least one component")
        shots = {name: tuple(items) for name, items in sorted((demonstrations or {}).items()) if items}
        for name in shots:
            if name not in texts:
                raise InputError(
                    f"field demonstrations: component {name!r} is unknown",
                    where="candidate",
                    fix=f"use some of {', '.join(sorted(texts))}",
                )
        return cls(tuple(sorted(texts.items())), tuple(shots.items()), tuple(parents))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of texts and demonstrations, 64 hex digits: equal content has equal digests."""
        shots = [[name, [asdict(item) for item in items]] for name, items in self.demonstrations]
        return digest_text(json.dumps([self.texts, shots], ensure_ascii=False))

    @property
    def components(self) -> tuple[str, ...]:
        """Component names, sorted."""
        return tuple(name for name, _ in self.texts)

    def text(self, component: str) -> str:
        """The text of a component.

        Raises:
            InputError: there is no such component.
        """
        for name, text in self.texts:
            if name == component:
                return text
        known = ", ".join(self.components)
        raise InputError(f"component {component!r} is unknown", where="candidate", fix=f"use one of {known}")

    def shots(self, component: str) -> tuple[Demonstration, ...]:
        """The demonstrations of a component, () when it has none."""
        return dict(self.demonstrations).get(component, ())

    def with_texts(self, changes: Mapping[str, str]) -> Candidate:
        """A child with other texts for some components.

        Raises:
            InputError: a component does not exist.
        """
        for name in sorted(changes):
            self.text(name)
        return Candidate.make({**dict(self.texts), **changes}, dict(self.demonstrations), (self.digest,))

    def with_shots(self, shots: Mapping[str, Sequence[Demonstration]]) -> Candidate:
        """A child with exactly these demonstrations."""
        return Candidate.make(dict(self.texts), shots, (self.digest,))

    def without(self, question: str) -> Candidate:
        """Itself, less the demonstrations that stem from a question (so that no run copies its own answer)."""
        shots = {name: [item for item in items if item.question != question] for name, items in self.demonstrations}
        same = all(len(shots[name]) == len(items) for name, items in self.demonstrations)
        return self if same else self.with_shots(shots)

    def to_row(self) -> dict[str, Any]:
        """JSON object of this candidate."""
        shots = {name: [asdict(item) for item in items] for name, items in self.demonstrations}
        return {"texts": dict(self.texts), "demonstrations": shots, "parents": list(self.parents)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Candidate:
        """Inverse of `to_row`."""
        shots = {
            name: [Demonstration.from_row(item) for item in items] for name, items in row["demonstrations"].items()
        }
        return cls.make(row["texts"], shots, row["parents"])
