"""`params.yaml` and the profile that it names, checked in one place.

`params.yaml` says *what* is asked (task, methods, seed, budget); `profiles/<profile>.yaml` says with which
engines and sizes. Both are read together; an unknown key, a wrong type or a value out of range is one
error that names the file, the field and the nearest known key. Types are strict (`"3"` is no number);
floats are read as DVC reads them (YAML 1.2: `1e-5` is a number, which plain PyYAML takes for a text).
"""

from __future__ import annotations

import difflib
import re
import reprlib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from luthier.errors import InputError
from luthier.reading import PlacedLoader, parse_yaml, read_text
from luthier.settings.base import Section
from luthier.settings.search import SearchParams
from luthier.settings.target import TargetParams
from luthier.settings.training import GeneratorParams

PARAMS_FILE, PHASES_FILE = "params.yaml", "pipeline.yaml"
MAX_SEED = 2**32 - 1
"""What every random generator behind a training takes."""
SectionT = TypeVar("SectionT", bound="Section")


class TaskParams(Section):
    """Which questions. `source` is a local file, a folder or a hub id where the task needs one."""

    name: str = "mixed"
    source: str = ""
    seed: int = Field(default=7, ge=0, description="seed of the questions; apart from the training seed")


class QuestionsParams(Section):
    """How many questions of each split."""

    train: int = Field(ge=1)
    validation: int = Field(ge=1)
    test: int = Field(ge=1)
    held_out: int = Field(default=0, ge=0, description="test questions of families that stand in no split")


class LimitsParams(Section):
    """Bounds of one execution; see `luthier.execution.Limits`."""

    steps: int = Field(default=40, ge=1)
    visits: int = Field(default=8, ge=1)
    calls: int = Field(default=24, ge=1)
    tokens: int = Field(default=16_000, ge=1)


class GridParams(Section):
    """Which configurations of the pool run on how many train and validation questions."""

    configurations: list[str] = Field(min_length=1)
    train: int = Field(ge=1)
    validation: int = Field(ge=1)
    width: int = Field(default=512, ge=1, description="executions advanced together")


class EvaluateParams(Section):
    """How the contenders are scored on the test questions."""

    resamples: int = Field(default=2000, ge=100, description="bootstrap resamples of an interval")


class CompareParams(Section):
    """What methods are compared at: equal total budgets, several seeds."""

    seeds: list[int] = Field(default_factory=lambda: [17], min_length=1, description="of searches and of training")
    unit: Literal["price", "calls", "rollouts", "prompt_tokens", "completion_tokens"] = "price"
    budgets: list[float] = Field(default_factory=list, description="total budgets in `unit`, the largest ends a search")
    resamples: int = Field(default=2000, ge=100, description="bootstrap resamples of an interval")
    second_target: TargetParams | None = Field(default=None, description="the same harnesses run on it, too")

    @model_validator(mode="after")
    def _distinct(self) -> CompareParams:
        if max(self.seeds) > MAX_SEED:
            raise ValueError(f"seeds {self.seeds} must be at most {MAX_SEED}")
        for name, values in (("seeds", self.seeds), ("budgets", self.budgets)):
            if len(set(values)) != len(values) or any(value < 0 for value in values):
                raise ValueError(f"{name} {values} must be different numbers of at least 0")
        return self


class BudgetParams(Section):
    """Limits of one stage's spending; null = unlimited. Any limit stops."""

    rollouts: int | None = Field(default=None, ge=0)
    calls: int | None = Field(default=None, ge=0)
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    price: float | None = Field(default=None, ge=0)


class Ask(Section):
    """`params.yaml`: what is asked."""

    profile: str
    seed: int = Field(default=17, ge=0, le=MAX_SEED)
    task: TaskParams = TaskParams()
    methods: list[str] = Field(default_factory=list, description="that learn; of pipeline.yaml where there is one")
    searches: list[str] = Field(default_factory=list, description="that search, for the comparison; as `methods`")
    budget: BudgetParams = BudgetParams()


class Profile(Section):
    """`profiles/<name>.yaml`: engines and sizes."""

    target: TargetParams
    limits: LimitsParams = LimitsParams()
    questions: QuestionsParams
    grid: GridParams
    evaluate: EvaluateParams = EvaluateParams()
    search: SearchParams = SearchParams()
    proposer: TargetParams | None = Field(default=None, description="the model behind proposer and critic: a server")
    compare: CompareParams = CompareParams()


class Params(Section):
    """Everything that a stage may read.

    Attributes:
        ask: `params.yaml`. profile: What the profile says beside its methods.
        methods: What the profile says of each method, by name, as written; `section` checks and reads it.
        within_search: Those of them whose section stands under `search`.
        phases: `pipeline.yaml`; empty where there is none.
        file: The profile's file, for messages.
    """

    ask: Ask
    profile: Profile
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    within_search: list[str] = Field(default_factory=list)
    phases: dict[str, dict[str, str]] = Field(default_factory=dict)
    file: str = "profile"

    def section(self, method: str, kind: type[SectionT], *path: str) -> SectionT:
        """A method's settings, or a part of them, with the defaults of their class where the profile is silent.

        Args:
            method: Its name.
            kind: Class of the section.
            path: Names of the part, outermost first; none for all of it.

        Raises:
            InputError: a field is unknown, of the wrong type or out of range.
        """
        value: Any = self.methods.get(method, {})
        for name in path:
            value = value.get(name, {}) if isinstance(value, Mapping) else value
        place = ".".join((self.place(method), *path))
        return _parse(kind, _over_defaults(kind, value), Path(self.file), place)

    def place(self, method: str) -> str:
        """The field of the profile that holds a method's settings."""
        return f"search.{method}" if method in self.within_search else method

    def generator(self, method: str) -> GeneratorParams | None:
        """The section `generator` of a method; None for one without it, as a search."""
        return (
            self.section(method, GeneratorParams, "generator") if "generator" in self.methods.get(method, {}) else None
        )

    def teacher(self, method: str) -> TargetParams | None:
        """The section `teach.server` of a method: the large model that writes for its teacher; None without one."""
        teach = self.methods.get(method, {}).get("teach")
        stated = isinstance(teach, Mapping) and teach.get("server") is not None
        return self.section(method, TargetParams, "teach", "server") if stated else None


def load_params(root: Path = Path(".")) -> Params:
    """Read and check `params.yaml`, `pipeline.yaml` and the profile.

    What a profile says of its methods is checked when it is read (`Params.section`): their settings are their own.

    Raises:
        InputError: a file is missing or broken, or a field is unknown, of the wrong type or out of range.
    """
    ask_path = root / PARAMS_FILE
    phases = read_phases(root) if (root / PHASES_FILE).is_file() else {}
    ask = _asked(root, _parse(Ask, _read(ask_path), ask_path), phases)
    profiles = sorted(path.stem for path in (root / "profiles").glob("*.yaml"))
    if ask.profile not in profiles:
        raise InputError(
            f"field profile: {ask.profile!r} is unknown{near(ask.profile, profiles)}",
            where=str(ask_path),
            fix=f"use one of {', '.join(profiles)}, or add profiles/{ask.profile}.yaml",
        )
    path = root / "profiles" / f"{ask.profile}.yaml"
    written = _read(path)
    general, methods = _apart(written, path)
    within = [name for name in methods if name not in written]
    profile = _parse(Profile, general, path)
    return Params(ask=ask, profile=profile, methods=methods, within_search=within, phases=phases, file=str(path))


def _over_defaults(kind: type[Section], value: Any) -> Any:
    """What is stated over the defaults of a section and of the sections in it, which pydantic replaces as a whole."""
    if not isinstance(value, Mapping):
        return value
    merged = dict(value)
    for name, field in kind.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section) and isinstance(stated := value.get(name, {}), Mapping):
            kept = {key: item for key, item in default.model_dump().items() if key not in stated}
            merged[name] = _over_defaults(type(default), {**kept, **stated})
    return merged


def _asked(root: Path, ask: Ask, phases: Mapping[str, Mapping[str, str]]) -> Ask:
    """With the methods of `pipeline.yaml`, which `params.yaml` need not repeat and may not contradict."""
    if not phases:
        if not ask.methods:
            raise InputError("field methods: missing", where=str(root / PARAMS_FILE), fix=f"write {PHASES_FILE}")
        return ask
    built = {"methods": [*phases.get("evaluate", {})], "searches": [*phases.get("search", {})]}
    for field, names in built.items():
        stated = getattr(ask, field)
        if field in ask.model_fields_set and sorted(stated) != sorted(names):
            raise InputError(
                f"field {field}: {', '.join(stated) or 'none'}, but {PHASES_FILE} builds {', '.join(names) or 'none'}",
                where=str(root / PARAMS_FILE),
                fix=f"leave the field out, and name in {PHASES_FILE} what is to be built",
            )
    return ask.model_copy(update=built)


def read_phases(root: Path) -> dict[str, dict[str, str]]:
    """`pipeline.yaml`: by stage, each method that it builds and the folder whose output of that method it reads.

    Raises:
        InputError: the file is missing, broken or of another form.
    """
    path = root / PHASES_FILE
    value = _read(path).get("phases")
    if not isinstance(value, Mapping):
        raise InputError("field phases: missing", where=str(path), fix="write `phases:` with a line for each stage")
    phases: dict[str, dict[str, str]] = {}
    for stage, methods in value.items():
        named = dict.fromkeys(methods, "") if isinstance(methods, list) else methods
        if not isinstance(named, Mapping) or not all(isinstance(text, str) for text in (*named, *named.values())):
            raise InputError(
                f"field phases.{stage}: neither names nor `name: folder`",
                where=str(path),
                fix="write [name, ...] or { name: folder that the stage reads }",
            )
        phases[stage] = dict(named)
    return phases


def _apart(value: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What a profile says in general, and what it says of each method."""
    general = {name: item for name, item in value.items() if name in Profile.model_fields}
    methods = {name: item for name, item in value.items() if name not in general}
    search = general.get("search")
    if isinstance(search, Mapping):
        general["search"] = {name: item for name, item in search.items() if name in SearchParams.model_fields}
        methods |= {name: item for name, item in search.items() if name not in general["search"]}
    for name, item in methods.items():
        if not isinstance(item, Mapping):
            raise InputError(
                f"field {name}: neither a setting nor the section of a method{near(name, [*Profile.model_fields])}",
                where=str(path),
                fix=f"known here: {', '.join(sorted(Profile.model_fields))}, and a section for each method",
            )
    return general, {name: dict(item) for name, item in methods.items()}


_TEXTS = frozenset({"revision", "model"})
"""Settings that stay texts when they look like a number, as a git hash may (`5e31`, `0012345`)."""
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})


class _SettingsLoader(PlacedLoader):
    """PyYAML with the floats of YAML 1.2, and without a key that silently replaces an earlier one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in _TEXTS and value.tag in _NUMBERS:
                value.tag = "tag:yaml.org,2002:str"
        names = [key.value for key, _ in node.value]
        for position, (key, _) in enumerate(node.value):
            if key.value in names[:position]:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
        return super().construct_mapping(node, deep)


_SettingsLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _read(path: Path) -> Mapping[str, Any]:
    text = read_text(path, what="the settings", fix="run in the project's folder")
    value = parse_yaml(text, where=str(path), fix="correct the line named", loader=_SettingsLoader)
    if not isinstance(value, Mapping):
        raise InputError("not a mapping of settings", where=str(path), fix="write `name: value` lines")
    return value


def _parse(section: type[SectionT], value: Any, path: Path, inside: str = "") -> SectionT:
    try:
        return section.model_validate(value)
    except ValidationError as error:
        # A misspelt name also leaves the right one missing: the misspelling is what to tell.
        first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        field = ".".join(str(part) for part in ([inside] if inside else []) + [*first["loc"]])
        if first["type"] == "extra_forbidden":
            known = _fields_at(section, first["loc"][:-1])
            raise InputError(
                f"field {field}: unknown{near(str(first['loc'][-1]), known)}",
                where=str(path),
                fix=f"known here: {', '.join(known)}",
            ) from error
        if first["type"] == "missing":
            raise InputError(f"field {field}: missing", where=str(path), fix=f"add `{field}`") from error
        got = f" (got {reprlib.repr(first['input'])})" if not isinstance(first["input"], Mapping) else ""
        place = f"field {field}: " if field else ""
        raise InputError(f"{place}{first['msg']}{got}", where=str(path), fix="correct the value") from error


def _fields_at(section: type[Section], location: tuple[int | str, ...]) -> list[str]:
    current: Any = section
    for part in location:
        current = current.model_fields[part].annotation
        current = next((kind for kind in typing.get_args(current) if hasattr(kind, "model_fields")), current)
    return sorted(current.model_fields)


def near(name: str, known: Iterable[str]) -> str:
    """What to put after a misspelt name: the known one that is like it, in brackets; empty where none is."""
    match = difflib.get_close_matches(name, [*known], n=1)
    return f" (did you mean {match[0]!r}?)" if match else ""
