"""The hand-written configurations: a fixed pool of harnesses that every method may start from.

The pool is a reconstruction (ours) of the more than forty base systems of MAS-GPT (Ye et al., ICML 2025,
arXiv 2503.03686), whose own list is not published; parameters follow MASLab where it states them. It is one
readable file, `pool.txt`: a header line an entry, then the graph. Entries that cannot be said without running
code are listed with what they need and carry no graph, so that nobody takes the pool for complete.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from luthier.errors import HarnessError, InputError
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.presets import presets

POOL_FILE = "pool.txt"
_HEADER = "## <name> | <family> | <source> | calls <min>-<max> | <one line>"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CALLS = re.compile(r"calls (\d+)-(\d+)")
_NEEDS = re.compile(r"needs ([a-z]+)")
_SUITE_FAMILIES = ("one-tool", "two-tools")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One hand-written harness of the pool.

    Attributes:
        name: Lower-case words with hyphens, unique in the pool.
        family: Group for reports ("debate").
        source: Who published the shape, or "ours".
        calls_min: Fewest target calls of one complete run; 0 where there is no graph.
        calls_max: Most target calls of one complete run; 0 where there is no graph.
        about: What it does, in one line.
        harness: The parsed graph; None if `needs` is set.
        needs: What the graph form lacks to say it ("code"); "" when there is a graph.
    """

    name: str
    family: str
    source: str
    calls_min: int
    calls_max: int
    about: str
    harness: GraphHarness | None
    needs: str = ""

    @property
    def general(self) -> bool:
        """Whether it runs here and suits any question: those of `_SUITE_FAMILIES` are made for the mixed suite."""
        return self.harness is not None and self.family not in _SUITE_FAMILIES


@cache
def pool() -> tuple[Configuration, ...]:
    """All configurations in file order; the first 44 are numbered as in the specification.

    Raises:
        InputError: an entry of the pool file is broken; file, line and fix are named.
    """
    return parse_pool(files("luthier.harnesses.pool").joinpath(POOL_FILE).read_text(encoding="utf-8"))


def select(names: Sequence[str]) -> tuple[Configuration, ...]:
    """The configurations with these names, in the order given; each has a graph.

    Raises:
        InputError: no name, an unknown name (near matches are listed), a name given twice, or one whose
            graph cannot run here.
    """
    if not names:
        raise InputError("no configuration is named", where="configurations", fix="name at least one of the pool")
    by_name = {configuration.name: configuration for configuration in pool()}
    runnable = [name for name, configuration in by_name.items() if configuration.harness is not None]
    for position, name in enumerate(names):
        if name not in by_name:
            near = difflib.get_close_matches(name, runnable, n=3, cutoff=0.4)
            meant = f"did you mean {', '.join(near)}?" if near else f"use one of: {', '.join(runnable)}"
            raise InputError(f"configuration {name!r} is unknown", where="configurations", fix=meant)
        if by_name[name].harness is None:
            problem = f"configuration {name!r} has no graph: it needs {by_name[name].needs}"
            raise InputError(problem, where="configurations", fix="leave it out")
        if name in names[:position]:
            raise InputError(f"configuration {name!r} is named twice", where="configurations", fix="name it once")
    return tuple(by_name[name] for name in names)


def cheapest_general(count: int, calls: int) -> tuple[Configuration, ...]:
    """At most `count` configurations that suit any question, those with the fewest target calls first.

    Args:
        count: How many.
        calls: The most target calls that one of them may make.
    """
    fitting = [item for item in pool() if item.general and item.calls_max <= calls]
    return tuple(sorted(fitting, key=lambda item: item.calls_max)[:count])


def parse_pool(text: str, where: str = POOL_FILE) -> tuple[Configuration, ...]:
    """Parse the text of a pool file.

    Args:
        text: Entries, each a header line `## <name> | <family> | <source> | calls <min>-<max> | <one line>`
            followed by a graph, or by the line `needs <what>` in its place. `#` starts a comment.
        where: File name for error messages.

    Raises:
        InputError: a broken header, a graph that does not validate, a name or a graph that stands twice;
            the message names file, line and fix.
    """
    found: list[Configuration] = []
    names: dict[str, int] = {}
    digests: dict[str, str] = {}
    for line, header, body in _entries(text, where):
        configuration = _configuration(line, header, body, where)
        name, harness = configuration.name, configuration.harness
        if name in names:
            problem = f"name {name!r} already stands on line {names[name]}"
            raise InputError(problem, where=f"{where}:{line}", fix="give each entry its own name")
        names[name] = line
        if harness is not None:
            if harness.digest in digests:
                problem = f"{name!r} is the same graph as {digests[harness.digest]!r}"
                raise InputError(problem, where=f"{where}:{line}", fix="remove one of the two entries")
            digests[harness.digest] = name
        found.append(configuration)
    return tuple(found)


def _entries(text: str, where: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number of the header, header and body of each entry."""
    lines = text.split("\n")  # as the graph parser splits, so that both count the same lines
    starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
    if not starts:
        raise InputError("no entry", where=where, fix=f"add one that starts with {_HEADER}")
    for number, line in enumerate(lines[: starts[0]], start=1):
        if line.strip() and not line.startswith("#"):
            raise InputError("text before the first header", where=f"{where}:{number}", fix=f"start with {_HEADER}")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start + 1, lines[start][3:], "\n".join(lines[start + 1 : end])


def _configuration(line: int, header: str, body: str, where: str) -> Configuration:
    fields = [field.strip() for field in header.split("|")]
    if len(fields) != 5 or not all(fields):
        raise InputError("the header has not five filled fields", where=f"{where}:{line}", fix=f"write {_HEADER}")
    name, family, source, calls, about = fields
    if not _NAME.fullmatch(name):
        fix = "use lower-case letters, digits and single hyphens"
        raise InputError(f"field name: {name!r}", where=f"{where}:{line}", fix=fix)
    bounds = _CALLS.fullmatch(calls)
    if bounds is None or int(bounds[1]) > int(bounds[2]):
        fix = "write `calls <min>-<max>` with min not above max"
        raise InputError(f"field calls: {calls!r}", where=f"{where}:{line}", fix=fix)
    harness, needs = _graph_or_needs(line, body, where)
    return Configuration(name, family, source, int(bounds[1]), int(bounds[2]), about, harness, needs)


def _graph_or_needs(line: int, body: str, where: str) -> tuple[GraphHarness | None, str]:
    content = [text.strip() for text in body.splitlines() if text.strip() and not text.startswith("#")]
    needs = _NEEDS.fullmatch(content[0]) if len(content) == 1 else None
    if needs is not None:
        return None, needs[1]
    try:
        return GraphHarness.parse(body), ""
    except HarnessError as error:
        # The graph's first line follows the header, so its line numbers count on from there.
        place = f"{where}:{line + error.line}" + (f", {error.field}" if error.field else "")
        raise InputError(f"{error.rule}: {error.problem}", where=place, fix=error.fix) from error


def document() -> str:
    """The text of `docs/configurations.md`: what the pool holds, and each graph."""
    configurations = pool()
    runnable = [configuration for configuration in configurations if configuration.harness is not None]
    lines = [
        "# The configuration pool",
        "",
        "Made by `python -m luthier.harnesses.pool.configurations > docs/configurations.md`; edit",
        "`luthier/harnesses/pool/pool.txt` and `luthier/harnesses/graph/presets.yaml` instead of this file.",
        "",
        "A reconstruction (ours) of the base pool of MAS-GPT (arXiv 2503.03686), whose own list is not published.",
        f"{len(runnable)} of {len(configurations)} entries have a graph; the others need something that the graph",
        "form cannot say (column calls). Calls are the fewest and the most target calls of one complete run.",
        "",
        "| # | name | family | calls | shape published by | about |",
        "|---|---|---|---|---|---|",
    ]
    for number, c in enumerate(configurations, start=1):
        name = f"[{c.name}](#{c.name})" if c.harness is not None else c.name
        calls = f"needs {c.needs}" if c.harness is None else _range(c.calls_min, c.calls_max)
        lines.append(f"| {number} | {name} | {c.family} | {calls} | {c.source} | {c.about} |")
    for c in runnable:
        assert c.harness is not None  # filtered above; for the type checker
        lines += ["", f"## {c.name}", "", c.about, "", "```", c.harness.text, "```"]
    lines += [
        "",
        "## Implementations",
        "",
        "What the llm nodes above run (`luthier/harnesses/graph/presets.yaml`). Equal calls of several configurations",
        "are made once, because all of them share these.",
        "",
        "| name and inputs | about | reads its answer as |",
        "|---|---|---|",
    ]
    for name, preset in sorted(presets().items()):
        lines.append(f"| {name}({', '.join(preset.reads)}) | {preset.about} | {preset.parse} |")
    return "\n".join(lines) + "\n"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


if __name__ == "__main__":
    print(document(), end="")
