"""The list of methods: what each must have, and what is said when the settings and the pipeline do not fit it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from luthier.errors import InputError
from luthier.method import MethodCard, Searches, SearchMethod, Teaches, Trains
from luthier.methods import METHODS, check_phases, check_settings, having, learned, listed, method_of, searches
from luthier.settings.base import Section
from luthier.settings.load import load_params, read_phases

ROOT = Path(__file__).resolve().parents[3]
GEPA = METHODS["gepa"]
PHASES = read_phases(ROOT)


@dataclass(frozen=True)
class Toy:
    """A method that implements nothing."""

    card: Any
    section: type[Section] = Section


def refused(*methods: Any) -> str:
    with pytest.raises(InputError) as caught:
        listed(*methods)
    return str(caught.value)


def phases_refused(**changes: dict[str, str]) -> str:
    with pytest.raises(InputError) as caught:
        check_phases(PHASES | changes)
    return str(caught.value)


def test_every_method_has_a_card_of_its_name_and_can_do_what_its_phases_say():
    assert len(METHODS) >= 6
    for name, method in METHODS.items():
        card = method.card
        assert card.name == name
        assert all((card.title, card.paper, card.kind, card.trained, card.frozen, card.ours))
        assert isinstance(method, Searches) == ("search" in card.phases)
        assert isinstance(method, Teaches) == ("teach" in card.phases)
        assert isinstance(method, Trains) == bool(card.checkpoints)
        method.section()  # the defaults alone are a whole setting
    assert {*learned(), *searches()} == {*METHODS}


def test_a_method_without_a_card_is_refused():
    assert "a method without a card" in refused(Toy(None))


def test_two_methods_of_one_name_are_refused():
    assert "two methods are called 'gepa'" in refused(GEPA, GEPA)


def test_a_phase_that_is_not_implemented_is_refused():
    card = replace(GEPA.card, name="toy", phases=("teach", "sft"))
    assert "toy has phase 'teach', but is not Teaches" in refused(Toy(card))
    assert "toy has phase 'sft', but is not Trains" in refused(Toy(replace(card, phases=("sft",))))
    assert "phase 'polish' of toy is unknown" in refused(Toy(replace(card, phases=("polish",))))


def test_a_method_is_found_by_name_and_by_what_it_can_do():
    assert method_of("gepa") is GEPA
    assert isinstance(having("gepa", Searches), SearchMethod)
    with pytest.raises(InputError, match="did you mean 'mas_architect'"):
        method_of("mas_architct")
    with pytest.raises(InputError, match=r"'gepa' is not Teaches\. Fix: use one of mas_architect"):
        having("gepa", Teaches)


def test_the_pipeline_builds_the_phases_of_every_card():
    check_phases(PHASES)
    assert {name for methods in PHASES.values() for name in methods} == {*METHODS}


def test_a_phase_that_the_pipeline_lacks_is_named():
    words = phases_refused(sft={})
    assert words.startswith("pipeline.yaml: field phases.sft: mas_architect is missing")
    assert "add mas_architect to sft" in words
    assert "field phases.evaluate: mas_architect is missing" in phases_refused(evaluate={})


def test_a_phase_that_the_card_lacks_is_named():
    words = phases_refused(teach=PHASES["teach"] | {"gepa": ""})
    assert "field phases.teach: gepa has no such phase. Fix: remove gepa from teach" in words


def test_an_unknown_stage_or_method_of_the_pipeline_is_named():
    assert "field phases.tech: unknown (did you mean 'teach'?)" in phases_refused(tech={})
    assert "method 'gpea' is unknown (did you mean 'gepa'?)" in phases_refused(search=PHASES["search"] | {"gpea": ""})


PROFILE = """
target: { engine: scripted, model: hello }
questions: { train: 1, validation: 1, test: 1 }
grid: { configurations: [direct], train: 1, validation: 1 }
"""


@pytest.fixture
def folder(tmp_path):
    """A function (params, pipeline, profile) -> a project's folder with these settings."""

    def write(params: str = "profile: p\n", pipeline: str = "phases: { search: [gepa] }\n", profile: str = "") -> Path:
        (tmp_path / "profiles").mkdir(exist_ok=True)
        (tmp_path / "profiles" / "p.yaml").write_text(PROFILE + profile)
        (tmp_path / "params.yaml").write_text(params)
        (tmp_path / "pipeline.yaml").write_text(pipeline)
        return tmp_path

    return write


def message(root: Path) -> str:
    with pytest.raises(InputError) as caught:
        check_settings(load_params(root))
    return str(caught.value).replace(f"{root}/", "")


def test_methods_are_those_of_the_pipeline(folder):
    pipeline = (
        "phases:\n  sft: { mas_architect: data/teach }\n  evaluate: { mas_architect: models/sft }\n  search: [gepa]\n"
    )
    params = load_params(folder(pipeline=pipeline))
    assert (params.ask.methods, params.ask.searches) == (["mas_architect"], ["gepa"])
    assert read_phases(folder(pipeline=pipeline))["evaluate"] == {"mas_architect": "models/sft"}


def test_settings_that_contradict_the_pipeline_are_refused(folder):
    words = message(folder(params="profile: p\nsearches: [mipro]\n"))
    assert words.startswith(
        "params.yaml: field searches: mipro, but pipeline.yaml builds gepa. Fix: leave the field out"
    )


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("{}\n", "pipeline.yaml: field phases: missing"),
        ("phases: { search: gepa }\n", "pipeline.yaml: field phases.search: neither names nor `name: folder`"),
        ("phases: { search: [1] }\n", "pipeline.yaml: field phases.search: neither names nor `name: folder`"),
    ],
)
def test_a_pipeline_of_another_form_is_named(folder, pipeline, words):
    assert message(folder(pipeline=pipeline)).startswith(words)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("gpea: {}\n", "profiles/p.yaml: field gpea: unknown (did you mean 'gepa'?)"),
        ("limts: { steps: 4 }\n", "profiles/p.yaml: field limts: unknown (did you mean 'limits'?)"),
        ("limts: 4\n", "profiles/p.yaml: field limts: neither a setting nor the section of a method (did you mean"),
        ("search: { gepa: { bach: 4 } }\n", "field search.gepa.bach: unknown (did you mean 'batch'?)"),
        ("mas_architect: { teach: { confirm: -1 } }\n", "field mas_architect.teach.confirm: Input should be"),
    ],
)
def test_every_section_of_a_profile_is_checked(folder, profile, words):
    assert words in message(folder(profile=profile))


def test_a_method_without_a_section_has_the_defaults_of_its_class(folder):
    params = load_params(folder())
    assert params.section("gepa", GEPA.section) == GEPA.section()


def test_cards_know_their_checkpoints():
    card = MethodCard("m", "M", "p", "graph", ("prefer", "sft", "dpo", "reinforce", "search"), "t", "f", "o")
    assert card.checkpoints == ("sft", "dpo", "reinforce")
