"""Where a checkpoint comes from, read from files: the code's revision, the parameters and the DVC pipeline.

Git and DVC are used through their files and command lines alone, so reading costs milliseconds and works
inside a running stage, when `dvc.lock` does not know that stage yet.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from luthier.errors import InputError
from luthier.files import digest_text, md5_file
from luthier.reading import parse_yaml, read_text, shaped

PIPELINE_FILE, LOCK_FILE, PARAMS_FILE = "dvc.yaml", "dvc.lock", "params.yaml"
CODE_FOLDER = "data/code"
"""Where the stage `code` writes what each stage's code is (`luthier.stage_code`)."""
# The pipeline itself writes this file while it runs, so a change in it is not a change of the code.
WRITTEN_BY_PIPELINE = frozenset({LOCK_FILE})


@dataclass(frozen=True, slots=True)
class Code:
    """The code's revision.

    Attributes:
        commit: Full git commit.
        changed: Paths that differ from it (modified or untracked, not ignored), without `dvc.lock`.
    """

    commit: str
    changed: tuple[str, ...]

    @property
    def dirty(self) -> bool:
        """Whether the commit alone does not say what ran."""
        return bool(self.changed)


@dataclass(frozen=True, slots=True)
class Output:
    """What a stage wrote: DVC's digest, bytes, number of files, and the rows of each JSON Lines file by its name."""

    path: str
    md5: str
    bytes: int
    files: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StageFacts:
    """One stage as it last ran: digests of what it read, by path, and what it wrote."""

    name: str
    deps: Mapping[str, str]
    outs: tuple[Output, ...]

    def to_json(self) -> str:
        """One line of JSON, without loss."""
        return json.dumps(asdict(self) | {"deps": dict(self.deps)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> StageFacts:
        """Inverse of `to_json`."""
        row = json.loads(text)
        return cls(row["name"], row["deps"], tuple(Output(**out) for out in row["outs"]))


def find_root(start: Path | None = None) -> Path:
    """The project's folder: the nearest one upward that holds a `dvc.yaml`.

    Not `DVC_ROOT`: in an experiment that runs in a folder of its own, it names the workspace.

    Raises:
        InputError: there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / PIPELINE_FILE).is_file():
            return folder
    raise InputError(f"no {PIPELINE_FILE} here or above", where=str(here), fix="run in the project's folder")


def read_code(root: Path) -> Code:
    """Commit and changed paths of the git repository at `root`.

    Raises:
        InputError: not a git repository, or one without a commit.
    """
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(
            "not a git repository with a commit, so a checkpoint's code cannot be named",
            where=str(root),
            fix="git init && git add . && git commit",
        ) from error
    changed = sorted({entry[3:] for entry in status.split("\0") if entry} - WRITTEN_BY_PIPELINE)
    return Code(commit, tuple(changed))


def read_params(root: Path) -> str:
    """Text of `params.yaml` and of the profile that it names, the profile under a comment line.

    Raises:
        InputError: `params.yaml` is missing or is not YAML.
    """
    path = root / PARAMS_FILE
    text = read_text(path, fix="run in the project's folder")
    profile = _read_yaml(text, path).get("profile")
    profile_path = root / "profiles" / f"{profile}.yaml"
    if profile and profile_path.is_file():
        text += f"\n# profiles/{profile}.yaml\n" + read_text(profile_path, fix="restore it")
    return text


def params_digest(root: Path) -> str:
    """SHA-256 of `read_params`."""
    return digest_text(read_params(root))


def packages_digest(root: Path) -> str:
    """SHA-256 over the package locks in `requirements/`, or "none" when there are none."""
    locks = sorted((root / "requirements").glob("*.lock"))
    if not locks:
        return "none"
    return digest_text("\n".join(f"{lock.name}\n{read_text(lock, fix='restore it from git')}" for lock in locks))


def read_stages(root: Path) -> dict[str, StageFacts]:
    """Every stage that `dvc.lock` knows, by name; empty when nothing ran yet.

    Raises:
        InputError: the lock file is broken.
    """
    path = root / LOCK_FILE
    if not path.is_file():
        return {}
    fix = "restore it from git, or run `dvc repro` again"
    rows = _read_yaml(read_text(path, fix=fix), path, fix).get("stages", {})
    with shaped("no list of stages", where=str(path), fix=fix):
        return {name: _facts(root, name, row) for name, row in sorted(rows.items())}


def declared_stages(root: Path) -> list[str]:
    """Every stage of `dvc.yaml` by its address: "grid", and "sft@mas_architect" for each one of a foreach or matrix.

    Raises:
        InputError: `dvc.yaml` or `params.yaml` cannot be read.
    """
    document, params = _pipeline(root)
    names: list[str] = []
    for base, stage in document.get("stages", {}).items():
        combinations = _combinations(stage, params)
        names += [base] if combinations is None else [f"{base}@{item}" for item in combinations]
    return names


def declared_deps(root: Path, name: str) -> list[str]:
    """Paths that a stage of `dvc.yaml` depends on, with the values of `params.yaml` filled in.

    Raises:
        InputError: there is no such stage, or a value is missing.
    """
    path = root / PIPELINE_FILE
    document, params = _pipeline(root)
    base, _, item = name.partition("@")
    with shaped("no pipeline", where=str(path), fix="restore it from git"):
        stage = document.get("stages", {}).get(base)
        if stage is None:
            raise InputError(f"has no stage {base!r}", where=str(path), fix=f"add the stage {base!r}, or name another")
        scope = params | _item(base, stage, params, item)
        deps = stage.get("do", stage).get("deps", [])
        return [_fill(dep if isinstance(dep, str) else next(iter(dep)), scope, path) for dep in deps]


def running_stage(root: Path, name: str) -> StageFacts:
    """A stage that is running now: what it reads, from `dvc.yaml`, with digests from its upstream's lock.

    `dvc.lock` learns about a stage when it ends, so its outputs are not in here. Code folders have no digest of
    their own ("" here): the git commit holds them.

    Raises:
        InputError: `dvc.yaml` has no such stage, or uses a value that `params.yaml` lacks.
    """
    stages = read_stages(root)
    known = {out.path: out.md5 for facts in stages.values() for out in facts.outs}
    deps: dict[str, str] = {}
    for path in sorted(declared_deps(root, name)):
        inside = {out: md5 for out, md5 in known.items() if related(path, out)}
        if inside and not related(path, CODE_FOLDER):  # of that folder, a stage reads its own file alone
            deps.update(inside)
        else:
            file = root / path
            deps[path] = md5_file(file) if file.is_file() else ""
    return StageFacts(name, deps, ())


def commit_of(root: Path, md5: str) -> str:
    """The first commit since which `dvc.lock` names this output; "" when the last commit does not name it.

    Whoever builds and then commits puts code, settings and `dvc.lock` into it, so it can be built again from there.

    Args:
        root: The project's folder in a git repository.
        md5: Digest of an output as `dvc.lock` spells it.

    Raises:
        InputError: not a git repository, or one without a commit.
    """
    found = ""
    for commit in [read_code(root).commit, *_git(root, "log", "--format=%H", f"-S{md5}", "--", LOCK_FILE).split()]:
        if md5 not in _text_at(root, commit, LOCK_FILE):
            break
        found = commit
    return found


def restore(root: Path, commit: str, paths: Sequence[str], folder: Path) -> None:
    """Write what a commit holds under these paths (files or folders) into another folder; what it lacks is left out."""
    for name in _git(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", *paths).split("\0"):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(_text_at(root, commit, name), encoding="utf-8")


def upstream(stage: StageFacts, stages: Mapping[str, StageFacts]) -> tuple[StageFacts, ...]:
    """All stages that `stage` was made from, nearest first, each once."""
    found: dict[str, StageFacts] = {}
    frontier = [stage]
    while frontier:
        layer = [parent for child in frontier for parent in parents(child, stages) if parent.name not in found]
        frontier = list({parent.name: parent for parent in layer}.values())
        found.update({parent.name: parent for parent in frontier})
    return tuple(found.values())


def parents(stage: StageFacts, stages: Mapping[str, StageFacts]) -> list[StageFacts]:
    """The stages whose outputs `stage` reads, by name; not the one that digests the code, which the commit names."""
    read = [dep for dep in stage.deps if not related(dep, CODE_FOLDER)]
    return [
        other
        for name, other in sorted(stages.items())
        if name != stage.name and any(related(dep, out.path) for dep in read for out in other.outs)
    ]


def _facts(root: Path, name: str, row: Mapping[str, Any]) -> StageFacts:
    deps = {dep["path"]: str(dep.get("md5", "")) for dep in row.get("deps", [])}
    outs = [
        Output(
            path=out["path"],
            md5=str(out.get("md5", "")),
            bytes=int(out.get("size", 0)),
            files=int(out.get("nfiles", 1)),
            rows=_count_rows(root / out["path"]),
        )
        for out in row.get("outs", [])
    ]
    return StageFacts(name, deps, tuple(outs))


def _pipeline(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """`dvc.yaml`, and the values of `params.yaml` and of the files under its `vars`."""
    path = root / PIPELINE_FILE
    document = _read_yaml(read_text(path, fix="run in the project's folder"), path)
    files = [PARAMS_FILE, *(name for name in document.get("vars") or [] if isinstance(name, str))]
    values: dict[str, Any] = {}
    for file in dict.fromkeys(root / name for name in files):
        values |= _read_yaml(read_text(file, fix="write one"), file)
    return document, values


def _item(base: str, stage: Mapping[str, Any], params: Mapping[str, Any], item: str) -> dict[str, Any]:
    """What `item` and `key` mean in `sft@mas_architect`."""
    named = _combinations(stage, params)
    if named is None:
        return {"item": item}
    if item not in named:
        raise InputError(
            f"stage {base!r} has no {item!r}", where=PIPELINE_FILE, fix=f"use one of {', '.join(sorted(named)) or '-'}"
        )
    return named[item]


def _combinations(stage: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """What a stage is repeated for, by name: `item` and, over a mapping, `key`; None for a stage that stands once.

    DVC joins the values of a matrix with "-", and calls a stage of a foreach by its value, or its key.
    """
    if "foreach" in stage:
        each = _listed(stage["foreach"], params)
        if isinstance(each, Mapping):
            return {str(key): {"key": key, "item": value} for key, value in each.items()}
        return {str(value): {"item": value} for value in each}
    matrix = stage.get("matrix")
    if not isinstance(matrix, Mapping):
        return None
    combinations: Iterator[dict[str, Any]] = iter([{}])
    for key, values in matrix.items():
        listed = _listed(values, params)
        combinations = iter([{**row, key: value} for row in combinations for value in listed])
    return {"-".join(str(value) for value in row.values()): {"item": row} for row in combinations}


def _listed(values: Any, params: Mapping[str, Any]) -> Any:
    """A list or mapping as `dvc.yaml` names it: written there, or `${where it stands}`; empty where nothing stands."""
    if not isinstance(values, str):
        return values
    found: Any = params
    for part in values[2:-1].strip().split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found or []


def _fill(text: str, scope: Mapping[str, Any], where: Path) -> str:
    def value_of(match: re.Match[str]) -> str:
        value: Any = scope
        for part in match.group(1).strip().split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise InputError(f"no value for {match.group(0)}", where=str(where), fix=f"set it in {PARAMS_FILE}")
            value = value[part]
        return str(value)

    return re.sub(r"\$\{([^}]+)\}", value_of, text)


def related(dep: str, out: str) -> bool:
    """Whether a dependency is an output, lies in it, or holds it."""
    dep, out = dep.rstrip("/"), out.rstrip("/")
    return dep == out or dep.startswith(out + "/") or out.startswith(dep + "/")


def _count_rows(path: Path) -> dict[str, int]:
    files = [path] if path.suffix == ".jsonl" and path.is_file() else sorted(path.rglob("*.jsonl"))
    return {file.relative_to(path).stem or file.stem: file.read_bytes().count(b"\n") for file in files}


def _read_yaml(text: str, path: Path, fix: str = "restore the file") -> dict[str, Any]:
    """The mapping that a YAML file holds; an empty file is an empty one."""
    value = parse_yaml(text, where=str(path), fix=fix)
    if not isinstance(value, dict | None):
        raise InputError("not a mapping", where=str(path), fix=fix)
    return value or {}


def _git(root: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *arguments], cwd=root, env=environment, check=True, capture_output=True, text=True
    ).stdout


def _text_at(root: Path, commit: str, path: str) -> str:
    """A text file as a commit holds it, "" when it does not."""
    try:
        return _git(root, "show", f"{commit}:./{path}")
    except subprocess.CalledProcessError:
        return ""
