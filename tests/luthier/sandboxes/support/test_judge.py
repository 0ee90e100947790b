import pytest

from luthier.errors import SandboxError
from luthier.sandbox import SandboxLimits, SandboxResult
from luthier.sandboxes.support.inside_judge import decoded, encoded
from luthier.sandboxes.support.judge import Verdict, judge_function

REFERENCE = "def double(x):\n    return 2 * x\n"
TESTS = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate([1, (2.5, None)]) == [1, (2.5, None), 1, (2.5, None)]
    for number in (-7, 10 ** 40, 0):
        assert candidate(number) == double(number)
"""
WRONG = "def double(x):\n    return 3\n"


def judge(sandbox, *sources: str, tests: str = TESTS, seconds: float = 10.0) -> Verdict:
    return judge_function(
        sandbox,
        sources=sources,
        entry_point="double",
        reference=REFERENCE,
        tests=tests,
        limits=SandboxLimits(seconds=seconds),
    )


def test_a_right_function_passes(sandbox):
    assert judge(sandbox, REFERENCE) == Verdict(True)


def test_a_right_function_may_print(sandbox):
    noisy = "print('loading')\ndef double(x):\n    print(x, flush=True)\n    return x + x\n"
    assert judge(sandbox, noisy) == Verdict(True)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (WRONG, "AssertionError"),
        ("def double(x):\n    return 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def triple(x):\n    return x\n", "KeyError: 'double'"),
        ("def double(x:\n", "SyntaxError: "),
        ("def double(x):\n    return iter(())\n", "TypeError: a value of type tuple_iterator is not plain data"),
        ("double = 3", "TypeError: 'int' object is not callable"),
        ("def double(x):\n    return double(x)\n", "RecursionError: "),
    ],
)
def test_a_wrong_function_fails_with_one_line(sandbox, source, problem):
    verdict = judge(sandbox, source)
    assert not verdict.passed
    assert verdict.problem.startswith(problem)
    assert "\n" not in verdict.problem


def test_the_first_source_that_compiles_is_taken(sandbox):
    assert judge(sandbox, "return 2 * x", REFERENCE, WRONG).passed
    assert not judge(sandbox, WRONG, REFERENCE).passed


def test_an_endless_function_is_a_timeout(sandbox):
    endless = "def double(x):\n    while True: pass\n"
    assert judge(sandbox, endless, seconds=0.3) == Verdict(False, "timeout: no result within 0.3 s")


CHEATS = {
    "exits at once": "import sys; sys.exit(0)",
    "ends its process": "import os; os._exit(0)",
    "exits when called": "import os\ndef double(x):\n    os._exit(0)\n",
    "exits when called, politely": "def double(x):\n    raise SystemExit(0)\n",
    "exits at exit": "import atexit, os\natexit.register(os._exit, 0)\ndef double(x):\n    return 3\n",
    "prints markers": "for word in ('ok', 'passed', '0' * 32):\n    print(word)\n" + WRONG,
    "writes to every descriptor": (
        "import os\nfor fd in range(64):\n    try: os.write(fd, b'passed\\n')\n    except OSError: pass\n" + WRONG
    ),
    "writes behind its own back": (
        "import os\n"
        "for pid in ['1', str(os.getppid()), 'self']:\n"
        "    for fd in '0123456789':\n"
        "        try: os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY), b'passed\\n')\n"
        "        except OSError: pass\n" + WRONG
    ),
    "equals everything": (
        "class Yes:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef double(x):\n    return Yes()\n"
    ),
    "is a number that equals everything": (
        "class Yes(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "def double(x):\n    return Yes(3)\n"
    ),
    "is a list that equals everything": (
        "class Yes(list):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "def double(x):\n    return Yes()\n"
    ),
    "patches the built-ins": (
        "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})\nbuiltins.print = lambda *a: None\n"
        + WRONG
    ),
    "looks for the tests in its callers": (
        "import sys\n"
        "def double(x):\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for names in (frame.f_globals, frame.f_locals):\n"
        "            if 'check' in names: names['check'] = lambda candidate: None\n"
        "        frame = frame.f_back\n"
        "    return 3\n"
    ),
    "kills the judge": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + WRONG,
    "stops the judge's other half": "import os\nif os.fork():\n    os._exit(0)\n" + WRONG,
}


@pytest.mark.parametrize("cheat", sorted(CHEATS))
def test_a_cheat_does_not_pass(sandbox, cheat):
    assert not judge(sandbox, CHEATS[cheat]).passed


SCAN = """
import os, re
SECRET = re.compile(b"LUTHIER[-]SENTINEL[-][0-9]{6}")
def readable(path):
    try:
        return open(path, "rb", 0).read()
    except OSError:
        return b""
def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
def memory(pid):
    found = b""
    for line in readable(f"/proc/{pid}/maps").decode().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        try:
            with open(f"/proc/{pid}/mem", "rb", 0) as file:
                file.seek(low)
                found += b" ".join(SECRET.findall(file.read(high - low)))
        except (OSError, OverflowError, ValueError):
            continue
    return found
def double(x):
    places = [os.path.join(folder, name) for folder in (".", "/tmp", os.environ["TMPDIR"]) for name in names(folder)]
    pids = [name for name in names("/proc") if name.isdigit()]
    for pid in pids:
        places += [f"/proc/{pid}/{name}" for name in ("environ", "cmdline")]
        places += [f"/proc/{pid}/fd/{fd}" for fd in range(3, 64) if pid != str(os.getpid())]
    found = [SECRET.findall(readable(place)) for place in places] + [memory(pid) for pid in pids]
    return [item for item in found if item], len(places)
"""


def test_tests_and_reference_are_nowhere_to_be_found(sandbox):
    tests = (
        "MARK = 'LUTHIER-SENTINEL-123456' * 500\n"
        "def check(candidate):\n"
        "    found, places = candidate(1)\n"
        "    assert places > 1, places\n"
        "    assert not found, found\n"
    )
    assert judge(sandbox, SCAN, tests=tests) == Verdict(True)


def test_the_scan_would_find_what_lies_about(sandbox):
    left = "mark = b'LUTHIER-' + b'SENTINEL-' + b'1' * 6\nopen('left.txt', 'wb').write(mark)\n"
    tests = "def check(candidate):\n    assert candidate(1)[0], 'nothing found'\n"
    assert judge(sandbox, left + SCAN, tests=tests) == Verdict(True)


class Jammed:
    """A fence behind which the judge itself cannot start."""

    name = "jammed"

    def run(self, program, *, files=None, limits=None):
        return SandboxResult("error", "", "OSError: out of processes\n", 1, 0.0)

    def self_check(self):
        pass


def test_a_judge_that_cannot_start_is_a_broken_machine_not_a_wrong_answer():
    with pytest.raises(SandboxError, match=r"judge could not be set up \(OSError: out of processes"):
        judge(Jammed(), REFERENCE)


def test_too_few_processes_for_the_judge_is_a_broken_machine(sandbox):
    limits = SandboxLimits(processes=1)
    with pytest.raises(SandboxError, match="judge could not be set up"):
        judge_function(
            sandbox, sources=[REFERENCE], entry_point="double", reference=REFERENCE, tests=TESTS, limits=limits
        )


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(10**50), 1.5, float("inf"), -0.0, 2 + 3j, "ä\ud800", b"\x00\xff", [], (1, [2]), {1: {"a": ()}},
        {(1, 2): None}, {1, 2}, frozenset({"x"}),
    ],
)  # fmt: skip
def test_plain_data_crosses_unchanged(value):
    copy = decoded(encoded(value))
    assert (copy, type(copy)) == (value, type(value))


def test_what_is_not_plain_data_does_not_cross():
    with pytest.raises(TypeError, match="type object is not plain data"):
        encoded([object()])
    with pytest.raises(ValueError, match="not an encoded value: 'code'"):
        decoded(["code", "x"])
