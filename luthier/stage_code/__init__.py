"""What the code of each stage is: one small file a stage, which `dvc.yaml` names as its dependency.

A stage's code is everything that its module reaches (`luthier.stage_code.imports`), digested so that comments do not
count (`luthier.stage_code.digest`), with the pinned versions of the libraries that it reaches. A stage of one method
does not reach the other methods, although the list of methods names them all.

Flows do not count where they start a stage of the same name: they decide when it runs, and not what it writes. Nor
does the step from a stage's command line to the methods, taken only to check what the settings say of them.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from luthier.errors import InputError
from luthier.lineage.sources import CODE_FOLDER, declared_deps, declared_stages
from luthier.stage_code.digest import digest_source
from luthier.stage_code.imports import Sources

PACKAGES = ("luthier", "stages", "flows")
METHODS = "luthier.methods"
REPLICAS, SHARED = "replicas", ("questions", "grid")
COMMAND_LINE = "stages.entry"
OWN_STAGE = "code"
PINS = Path("requirements/embedded.lock")
SERVANTS = frozenset({"dvc", "mlflow", "prefect"})
"""Libraries that say when something runs and keep what came out; no result hangs on their versions."""


def code_files(root: Path) -> dict[str, dict[str, Any]]:
    """The content of each stage's file, by its path relative to the project.

    Raises:
        InputError: a stage of `dvc.yaml` has no module of its name, or the sources cannot be read.
    """
    sources = Sources(root, PACKAGES)
    pins = read_pins(root / PINS)
    digests: dict[Path, str] = {}

    def digest(path: Path) -> str:
        if path not in digests:
            digests[path] = digest_source(path)[:16]
        return digests[path]

    files: dict[str, dict[str, Any]] = {}
    addresses = declared_stages(root)
    for address in addresses:
        stage, _, item = address.partition("@")
        if stage == OWN_STAGE:
            continue
        modules = [_module_of(name.partition("@")[0], sources) for name in _builds(address, addresses)]
        reached = sources.reach(modules, _only(item, sources))
        files[code_file(address)] = {
            "modules": {name: digest(sources.modules[name]) for name in reached.modules},
            "data": {path: digest(root / path) for path in reached.data},
            "libraries": pinned_versions(reached.libraries, pins),
        }
    return files


def stale_code(root: Path) -> list[str]:
    """Stages whose code differs from what stage `code` wrote last: those that its next run makes stale.

    Raises:
        InputError: as `code_files`.
    """
    changed = {path for path, content in code_files(root).items() if _content(root / path) != content}
    return [address for address in declared_stages(root) if changed & {*declared_deps(root, address)}]


def code_file(address: str) -> str:
    """Path of a stage's file: "grid" -> data/code/grid.json, "sft@m" -> data/code/sft/m.json."""
    return f"{CODE_FOLDER}/{address.replace('@', '/')}.json"


def read_pins(path: Path) -> dict[str, str]:
    """Version of each distribution that a lock pins, by its name in lower case with "-"; empty without a lock."""
    if not path.is_file():
        return {}
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("==", 1) for line in lines if "==" in line]
    return {_normal(name): version.strip() for name, version in pairs}


def pinned_versions(libraries: Iterable[str], pins: Mapping[str, str]) -> dict[str, str]:
    """Pinned versions of the distributions behind these import names, and of all that they need, by name."""
    providers = _providers()
    frontier = [
        _normal(name) for library in libraries if library not in SERVANTS for name in providers.get(library, [library])
    ]
    found: dict[str, str] = {}
    while frontier:
        name = frontier.pop()
        if name in pins and name not in found:
            found[name] = pins[name]
            frontier += _needs(name)
    return dict(sorted(found.items()))


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _module_of(stage: str, sources: Sources) -> str:
    for module in (f"stages.{stage}", f"flows.{stage}"):
        if module in sources.modules:
            return module
    raise InputError(f"stage {stage!r} has no module", where="dvc.yaml", fix=f"write stages/{stage}.py")


def _builds(address: str, addresses: Iterable[str]) -> list[str]:
    """The stages whose code a stage runs: its own and, for replicas, every stage that trains and scores the method."""
    stage, _, item = address.partition("@")
    if stage != REPLICAS:
        return [address]
    return [address, *(other for other in addresses if other in SHARED or other.endswith(f"@{item}"))]


def _only(method: str, sources: Sources) -> Callable[[str, str], bool]:
    """Leaves out the steps from the list of methods to the other ones, for a stage that works for one."""
    own = f"{METHODS}.{method}"
    one = own in sources.modules

    def counts(source: str, module: str) -> bool:
        inside = f"{module}.".startswith(f"{METHODS}.")
        if source == COMMAND_LINE:
            return not inside
        return not (one and inside and source == METHODS and module != METHODS) or f"{module}.".startswith(f"{own}.")

    return counts


@cache
def _providers() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@cache
def _needs(name: str) -> tuple[str, ...]:
    """What a distribution needs, extras left out; nothing if it is not installed here."""
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines if "extra ==" not in line]
    return tuple(_normal(match[0]) for match in names if match)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
