"""Settings: each kind of mistake is one error that names file, field and fix."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from luthier.errors import InputError
from luthier.methods import check_settings
from luthier.methods.mas_architect import MasArchitectParams
from luthier.settings.load import load_params
from luthier.settings.training import SftParams

ROOT = Path(__file__).resolve().parents[3]
ASK = "profile: small\nseed: 17\nmethods: [mas_architect]\n"
PROFILE = """
target: { engine: scripted, model: hello }
questions: { train: 4, validation: 2, test: 2 }
grid: { configurations: [direct], train: 4, validation: 2 }
mas_architect:
  teach: { variations: 3 }
  sft: { learning_rate: 5e-5, batch: 8, epochs: 2 }
  reinforce: { learning_rate: 1.0e-5, batch: 64, steps: 3 }
"""


@pytest.fixture
def project(tmp_path):
    """A function (ask, profile) that writes a project's settings and returns its folder."""

    def write(ask: str = ASK, profile: str = PROFILE) -> Path:
        (tmp_path / "profiles").mkdir(exist_ok=True)
        (tmp_path / "params.yaml").write_text(ask)
        (tmp_path / "profiles" / "small.yaml").write_text(profile)
        return tmp_path

    return write


def message(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        check_settings(load_params(folder))
    return str(caught.value).replace(f"{folder}/", "")


def test_settings_are_read_with_their_defaults(project):
    params = load_params(project())
    assert (params.ask.seed, params.ask.task.name, params.ask.budget.calls) == (17, "mixed", None)
    method = params.section("mas_architect", MasArchitectParams)
    assert (method.sft.learning_rate, method.sft.epochs, method.reinforce.samples) == (5e-5, 2.0, 8)
    assert params.profile.limits.calls == 24


@pytest.mark.parametrize("name", ["smoke", "embedded", "gpu", "cluster"])
def test_every_shipped_profile_is_valid(tmp_path, name):
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    text = (ROOT / "params.yaml").read_text().replace("profile: embedded", f"profile: {name}")
    (tmp_path / "params.yaml").write_text(text)
    shutil.copy(ROOT / "pipeline.yaml", tmp_path)
    params = load_params(tmp_path)
    check_settings(params)
    assert params.ask.profile == name


@pytest.mark.parametrize("number", ["5e-5", "5.0e-5", "5E-5", "0.00005", ".5e-4"])
def test_a_number_may_be_written_in_any_usual_way(project, number):
    params = load_params(project(profile=PROFILE.replace("5e-5", number)))
    assert params.section("mas_architect", SftParams, "sft").learning_rate == pytest.approx(5e-5)


@pytest.mark.parametrize("pin", ["5e3a1b9c", "5e31", "12345678", "0012345", "1e400", "0x1f", "main", "'7'"])
def test_a_revision_is_a_text_whatever_it_looks_like(project, pin):
    target = f"target: {{ engine: openai, model: 70, base_url: http://h/v1, revision: {pin} }}"
    settings = load_params(project(profile=re.sub(r"target: .*", target, PROFILE))).profile.target
    assert (settings.revision, settings.model) == (pin.strip("'"), "70")


ASK_MISTAKES = [
    ("seed: 17", "sed: 17", "params.yaml: field sed: unknown (did you mean 'seed'?). Fix: known here: budget, methods"),
    ("seed: 17", "seed: '17'", "params.yaml: field seed: Input should be a valid integer (got '17'). Fix: correct"),
    ("seed: 17", "seed: true", "params.yaml: field seed: Input should be a valid integer (got True)"),
    ("seed: 17", "seed: -1", "field seed: Input should be greater than or equal to 0 (got -1)"),
    ("seed: 17", "seed: 1\nseed: 2", "params.yaml: not valid YAML ('seed' stands twice"),
    ("seed: 17", "budget: { call: 3 }", "field budget.call: unknown (did you mean 'calls'?)"),
    ("seed: 17", "budget: { calls: 1.5 }", "field budget.calls: Input should be a valid integer (got 1.5)"),
    ("seed: 17", "task: mixed", "field task: Input should be a valid dictionary"),
    (
        "profile: small",
        "profile: smal",
        "field profile: 'smal' is unknown (did you mean 'small'?). Fix: use one of small",
    ),
    ("profile: small\n", "", "params.yaml: field profile: missing. Fix: add `profile`"),
    ("[mas_architect]", "[mas_architct]", "field methods: 'mas_architct' is unknown (did you mean 'mas_architect'?)"),
    ("[mas_architect]", "[]", "field methods: missing. Fix: write pipeline.yaml"),
    (ASK, "", "params.yaml: not a mapping of settings. Fix: write `name: value` lines"),
    (ASK, "a: [", "params.yaml: not valid YAML (while parsing a flow"),
    ("seed: 17", "seed: 2001-99-99", "params.yaml: not valid YAML ('2001-99-99' is no timestamp"),
    ("seed: 17", "seed: 0x_", "params.yaml: not valid YAML ('0x_' is no int"),
    ("seed: 17", "seed: !!bool abc", "params.yaml: not valid YAML ('abc' is no bool"),
    ("seed: 17", f"seed: {'1' * 5000}", "params.yaml: not valid YAML ('1111"),
    ("seed: 17", f"seed: {10**20}", "field seed: Input should be less than or equal to 4294967295"),
    ("seed: 17", "seed: " + "[" * 3000, "params.yaml: not valid YAML (it is nested too deep)"),
    ("seed: 17", "seed: &a [*a]", "params.yaml: field seed: Input should be a valid integer"),
    ("seed: 17", "budget: { price: .inf }", "field budget.price: Input should be a finite number (got inf)"),
    ("seed: 17", "budget: { seconds: .nan }", "field budget.seconds: Input should be a finite number (got nan)"),
    ("seed: 17", "? [a]\n: 3", "params.yaml: not valid YAML ("),
]


@pytest.mark.parametrize(
    ("old", "new", "words"), ASK_MISTAKES, ids=[row[1][:20] or row[2][-20:] for row in ASK_MISTAKES]
)
def test_a_mistake_in_params_is_named(project, old, new, words):
    assert words in message(project(ask=ASK.replace(old, new)))


PROFILE_MISTAKES = [
    ("epochs: 2", "epoch: 2", "profiles/small.yaml: field mas_architect.sft.epoch: unknown (did you mean 'epochs'?)"),
    (
        "engine: scripted",
        "engine: openvin",
        "field target.engine: Input should be 'openvino', 'transformers', 'openai'",
    ),
    ("batch: 8", "batch: 0", "field mas_architect.sft.batch: Input should be greater than or equal to 1 (got 0)"),
    (", validation: 2", "", "field questions.validation: missing. Fix: add `questions.validation`"),
    (
        "batch: 64",
        "batch: 48",
        "field mas_architect.reinforce: Value error, batch 48 does not divide questions x samples = 64",
    ),
    (
        "variations: 3",
        "server: { engin: openai }",
        "field mas_architect.teach.server.engin: unknown (did you mean 'engine'?). Fix: known here: base_url, batch",
    ),
    ("5e-5", ".inf", "field mas_architect.sft.learning_rate: Input should be a finite number (got inf)"),
    (
        "model: hello",
        "model: hello, prompt_usd_per_million: .inf",
        "field target.prompt_usd_per_million: Input should be a finite number (got inf)",
    ),
    ("target:", "compare: { budgets: [.nan] }\ntarget:", "field compare.budgets.0: Input should be a finite number"),
    ("target:", "search: { gepa: { batch: .inf } }\ntarget:", "field search.gepa.batch: Input should be a"),
    ("[direct]", "direct", "field grid.configurations: Input should be a valid list (got 'direct')"),
]


@pytest.mark.parametrize(("old", "new", "words"), PROFILE_MISTAKES, ids=[row[1][:20] for row in PROFILE_MISTAKES])
def test_a_mistake_in_a_profile_is_named(project, old, new, words):
    assert words in message(project(profile=PROFILE.replace(old, new)))


def test_a_missing_or_unreadable_file_is_named(project, tmp_path):
    assert "params.yaml: cannot read the settings" in message(tmp_path)
    folder = project()
    (folder / "params.yaml").write_bytes(b"\xff\xfe")
    assert "params.yaml: cannot read the settings" in message(folder)
