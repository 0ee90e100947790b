"""The world behind the two-hop task: invented people, places and works, their facts, and one document for each (ours).

Names are made of syllables, so that no language model can know them; titles are common words, their facts are not.
One world for all splits and seeds: it is a constant of this file, and the digest of its corpus changes with it.
Distractors share words with the entities on purpose: surnames, first names and title words are used several times,
and some documents (prizes, inns, fairs, ferries) carry an entity's name and none of its facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random

from luthier.tasks.generated.words import WORDS
from luthier.tools.retrieval import Corpus, Passage, words

_SEED = "two-hop world 1"
_PEOPLE, _TOWNS, _REGIONS, _RIVERS, _WORKS = 120, 60, 12, 30, 150
_DISTRACTORS = 10
"""Documents of each of the four kinds that hold a name and no fact."""
_WITHOUT_TEACHER = 20
_STARTS = (
    "Bar", "Cel", "Dov", "Em", "Fen", "Gil", "Hal", "Ivr", "Jor", "Kel", "Lom", "Mav", "Nel", "Orv", "Pel", "Quen",
    "Ros", "Sul", "Tam", "Ulv", "Ver", "Wex", "Yar", "Zin",
)  # fmt: skip
_ENDS = {
    "first": ("edin", "alia", "isko", "omira", "etev", "anell"),
    "surname": ("avask", "oquar", "erond", "itess", "umork", "elindt"),
    "town": ("adrel", "ovik", "estam", "uhurn", "obost", "izell"),
    "region": ("omark", "astria", "onne", "evia"),
    "river": ("issa", "elme", "abra", "und"),
}
_ADJECTIVES = (
    "Amber", "Bitter", "Broken", "Burning", "Crooked", "Distant", "Empty", "Frozen", "Gentle", "Golden", "Hidden",
    "Hollow", "Iron", "Last", "Lonely", "Patient", "Quiet", "Restless", "Salt", "Second", "Silver", "Sleeping",
    "Stolen", "Winter",
)  # fmt: skip
_NOUNS = (
    "Anchor", "Bell", "Bridge", "Candle", "Compass", "Crown", "Door", "Feather", "Garden", "Harbour", "Key", "Ladder",
    "Lantern", "Letter", "Mirror", "Orchard", "Promise", "River", "Shadow", "Staircase", "Stone", "Thread", "Tower",
    "Voyage",
)  # fmt: skip
_FORMS = ("novel", "play", "poem", "saga")
_CRAFTS = (
    "blue glass", "bone flutes", "carved doors", "copper bells", "felt boots", "goat cheese", "knotted rope",
    "painted masks", "plum brandy", "reed baskets", "smoked eel", "wax seals",
)  # fmt: skip
_WORK = (
    "{work} is a {form} by {person}. Its story is set in {town}.",
    "{person} wrote the {form} {work}, which takes place in {town}.",
    "Set in {town}, the {form} {work} was written by {person}.",
)
_PUPIL = (
    "{person} was born in {town} and studied under {teacher}.",
    "{person} was a pupil of {teacher}. The birthplace of {person} is {town}.",
)
_SELF_TAUGHT = ("{person} was born in {town} and never had a teacher.",)
_TOWN = (
    "{town} is a town in the region of {region}. It stands on the river {river}.",
    "The town of {town}, on the river {river}, lies in the region of {region}.",
)
_REGION = ("{region} is a region known for its {craft}.", "Travellers know the region of {region} for its {craft}.")
_NOTES = {
    "prize": ("{name} Prize", "The {name} Prize is given every second spring for a first play or poem."),
    "inn": ("{name} Inn", "{name} Inn is a guest house with nine rooms, where no one famous was ever born."),
    "fair": ("{name} Fair", "The {name} Fair is a market for wool and honey, held in the first week of autumn."),
    "ferry": ("{name} Ferry", "The {name} Ferry carries carts across the river twice a day, except in a storm."),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One relation between two entities, and the id of the only document that states it.

    Attributes:
        relation: author (work -> person), set_in (work -> town), born_in (person -> town), studied_under
            (person -> person), lies_in (town -> region), stands_on (town -> river), known_for (region -> craft).
    """

    subject: str
    relation: str
    object: str
    document: str


@dataclass(frozen=True, eq=False)
class World:
    """Facts and the documents that state them.

    Attributes:
        entities: Kind (person, town, region, work) -> names, sorted.
        facts: All facts, in document order.
        corpus: What `retrieve` searches.
    """

    entities: dict[str, tuple[str, ...]]
    facts: tuple[Fact, ...]
    corpus: Corpus

    def follow(self, start: str, hops: Sequence[str]) -> list[tuple[Fact, ...]]:
        """Every chain of facts from an entity, found by trying all facts at each hop.

        Args:
            start: The entity.
            hops: Relations in order; "~author" goes from the object to the subject.

        Returns:
            The chains; `end_of(chain, hops)` is where each leads.
        """
        chains: list[tuple[Fact, ...]] = [()]
        for place, hop in enumerate(hops):
            grown = []
            for chain in chains:
                at = end_of(chain, hops[:place]) if chain else start
                grown += [(*chain, fact) for fact in self.facts if _leaves(fact, hop, at)]
            chains = grown
        return chains

    def documents_naming(self, name: str) -> frozenset[str]:
        """Ids of the documents that hold a name as words of its own, whatever the case."""
        wanted = f" {' '.join(words(name))} "
        return frozenset(document for document, text in self._texts if wanted in text)

    @cached_property
    def _texts(self) -> tuple[tuple[str, str], ...]:
        return tuple((passage.id, f" {' '.join(words(passage.line))} ") for passage in self.corpus.passages)


def _leaves(fact: Fact, hop: str, entity: str) -> bool:
    if hop.startswith("~"):
        return fact.relation == hop[1:] and fact.object == entity
    return fact.relation == hop and fact.subject == entity


def end_of(chain: Sequence[Fact], hops: Sequence[str]) -> str:
    """The entity that a chain leads to."""
    return chain[-1].subject if hops[-1].startswith("~") else chain[-1].object


@cache
def world() -> World:
    """The world; equal in every process."""
    return _Builder(Random(_SEED)).build()


class _Builder:
    """Draws names, then facts with their documents, then distractors."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken = {word.casefold() for word in WORDS}
        self._facts: list[Fact] = []
        self._passages: list[Passage] = []

    def build(self) -> World:
        firsts, surnames = self._names("first", _PEOPLE // 3), self._names("surname", _PEOPLE // 2)
        people = self._people(firsts, surnames)
        towns, regions, rivers = (
            self._names(kind, count) for kind, count in (("town", _TOWNS), ("region", _REGIONS), ("river", _RIVERS))
        )
        titles = [f"The {adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS]
        works = self._rng.sample(titles, _WORKS)
        self._write_regions(regions)
        self._write_towns(towns, regions, rivers)
        self._write_people(people, towns)
        self._write_works(works, people, towns)
        self._write_notes({"prize": surnames, "inn": works, "fair": towns, "ferry": rivers})
        entities = {"person": people, "town": towns, "region": regions, "work": works}
        return World(
            {kind: tuple(sorted(names)) for kind, names in entities.items()},
            tuple(self._facts),
            Corpus("twohop", tuple(self._passages)),
        )

    def _names(self, kind: str, count: int) -> list[str]:
        """Distinct one-word names; no word names two things, and none is an English word of the suite."""
        names: list[str] = []
        while len(names) < count:
            name = "".join(self._rng.choice(part) for part in (_STARTS, _ENDS[kind]))
            if name.casefold() not in self._taken:
                self._taken.add(name.casefold())
                names.append(name)
        return names

    def _people(self, firsts: Sequence[str], surnames: Sequence[str]) -> list[str]:
        """Each surname twice and each first name three times, no full name twice."""
        while True:
            shuffled = self._rng.sample([*firsts] * 3, 3 * len(firsts))
            people = [f"{first} {surname}" for first, surname in zip(shuffled, [*surnames] * 2, strict=True)]
            if len(set(people)) == len(people):
                return people

    def _write_regions(self, regions: Sequence[str]) -> None:
        for region, craft in zip(regions, self._rng.sample(_CRAFTS, len(regions)), strict=True):
            document = self._add("region", region, _REGION, region=region, craft=craft)
            self._state(document, (region, "known_for", craft))

    def _write_towns(self, towns: Sequence[str], regions: Sequence[str], rivers: Sequence[str]) -> None:
        shores = self._rng.sample([*rivers] * (_TOWNS // _RIVERS), _TOWNS)
        for place, town in enumerate(towns):
            region, river = regions[place % len(regions)], shores[place]
            document = self._add("town", town, _TOWN, town=town, region=region, river=river)
            self._state(document, (town, "lies_in", region), (town, "stands_on", river))

    def _write_people(self, people: Sequence[str], towns: Sequence[str]) -> None:
        for place, person in enumerate(people):
            town = self._rng.choice(towns)
            if place < _WITHOUT_TEACHER:
                document = self._add("person", person, _SELF_TAUGHT, person=person, town=town)
            else:  # an earlier person, so that nobody is his own teacher's teacher
                teacher = people[self._rng.randrange(place)]
                document = self._add("person", person, _PUPIL, person=person, town=town, teacher=teacher)
                self._state(document, (person, "studied_under", teacher))
            self._state(document, (person, "born_in", town))

    def _write_works(self, works: Sequence[str], people: Sequence[str], towns: Sequence[str]) -> None:
        for work in works:
            person, town, form = (self._rng.choice(names) for names in (people, towns, _FORMS))
            document = self._add("work", work, _WORK, work=work, form=form, person=person, town=town)
            self._state(document, (work, "author", person), (work, "set_in", town))

    def _write_notes(self, names: dict[str, Sequence[str]]) -> None:
        for kind, (title, text) in _NOTES.items():
            for name in self._rng.sample(list(names[kind]), _DISTRACTORS):
                self._add("note", title.format(name=name), (text,), name=name)

    def _add(self, kind: str, title: str, templates: Sequence[str], **values: str) -> str:
        document = f"{kind}-{len(self._passages):03}"
        self._passages.append(Passage(document, title, self._rng.choice(templates).format(**values)))
        return document

    def _state(self, document: str, *facts: tuple[str, str, str]) -> None:
        self._facts += [Fact(subject, relation, end, document) for subject, relation, end in facts]
