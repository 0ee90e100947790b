"""Hostile answers: source text for `judge_function`, each for the question "double a number", none of them right."""

from __future__ import annotations

from benchmarks.hostile import PRELUDE
from benchmarks.hostile.outliving import KIND as OUTLIVING

REFERENCE = "def double(x):\n    return 2 * x\n"
TESTS = "def check(candidate):\n    for number in range(1, 9):\n        assert candidate(number) == double(number)\n"
_WRONG = "def double(x):\n    return 3\n"


def _while_called(body: str) -> str:
    return "import os, signal, sys, time\ndef double(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())


def all_answers() -> dict[str, str]:
    """Name -> source text."""
    outliving = {
        name: PRELUDE + OUTLIVING.programs[name] + "\n" + _WRONG
        for name in ("hold stdout open", "ignore everything, leave the session, spin", "fork bomb of orphans")
    }
    return _ANSWERS | outliving


_ANSWERS = {
    "a mebibyte of escape codes as its error": _while_called("raise ValueError('\\x1b[31m\\u202e' * (1 << 17))"),
    "an error with control characters": _while_called("raise ValueError('a\\x00\\x07\\x9b\\u2028\\u2066b\\r\\nc')"),
    "an error class with a long name": _while_called("raise type('\\x1b' + 'E' * 100_000, (Exception,), {})('x')"),
    "an error that cannot be printed": (
        "class Bad(Exception):\n    def __str__(self): raise Bad\ndef double(x): raise Bad\n"
    ),
    "an error whose text never ends": (
        "class Bad(Exception):\n    def __str__(self):\n        while True: pass\ndef double(x): raise Bad\n"
    ),
    "the judge is killed": _while_called("os.kill(os.getppid(), signal.SIGKILL)\nreturn 2 * x"),
    "the judge is interrupted": _while_called("os.kill(os.getppid(), signal.SIGINT)\ntime.sleep(1)\nreturn 3"),
    "the judge is stopped": _while_called("os.kill(os.getppid(), signal.SIGSTOP)\nreturn 2 * x"),
    "everybody is killed": _while_called("os.kill(-1, signal.SIGKILL)\nreturn 2 * x"),
    "the judge cannot be told from its children": _while_called(
        "if os.fork(): os._exit(0)\nos.kill(os.getppid(), signal.SIGTERM)\nreturn 3"
    ),
    "three thousand nested folders": (
        "import os\nfor _ in range(3000):\n    os.mkdir('a')\n    os.chdir('a')\n" + _WRONG
    ),
    "the secret's name is taken": "import os\nos.mkdir('secret.json')\nos.mkfifo('answer')\n" + _WRONG,
    "nonsense instead of a result": _while_called(
        "for number in range(3, 20):\n"
        "    try: os.write(number, (3).to_bytes(8, 'big') + b'[]x')\n"
        "    except OSError: pass\n"
        "return 3"
    ),
    "a result of no end": _while_called(
        "for number in range(3, 20):\n"
        "    try: os.write(number, b'\\xff' * 8)\n"
        "    except OSError: pass\n"
        "time.sleep(60)"
    ),
    "a result that nests": _while_called(
        "data = b'[' * 200_000\n"
        "for number in range(3, 20):\n"
        "    try: os.write(number, len(data).to_bytes(8, 'big') + data)\n"
        "    except OSError: pass\n"
        "time.sleep(60)"
    ),
    "a result that cannot be decoded": _while_called(
        "data = b'[\"value\", [\"complex\", \"0x1p0\"]]'\n"
        "for number in range(3, 20):\n"
        "    try: os.write(number, len(data).to_bytes(8, 'big') + data)\n"
        "    except OSError: pass\n"
        "time.sleep(60)"
    ),
    "a result that cannot be hashed": _while_called(
        "data = b'[\"value\", [\"set\", [[\"list\", []]]]]'\n"
        "for number in range(3, 20):\n"
        "    try: os.write(number, len(data).to_bytes(8, 'big') + data)\n"
        "    except OSError: pass\n"
        "time.sleep(60)"
    ),
    "a list that holds itself": _while_called("a = []\na.append(a)\nreturn a"),
    "an enormous number": _while_called("return 1 << 60_000_000"),
    "a number too long to print": _while_called("return 10 ** 5000"),
    "eight million lists": _while_called("return [[]] * 3_000_000"),
    "a function that is not there": "double: int\n",
    "a source of eighty mebibytes": _WRONG + "#" * (80 << 20),
    "a source that nests": "x = " + "(" * 5000 + ")" * 5000 + "\n" + _WRONG,
    "a source with surrogates and zeros": "x = '\ud800'\x00\n" + _WRONG,
    "a source that is an endless expression": "x = " + "-" * 100_000 + "1\n" + _WRONG,
    "an import that ends everything": "import os\nos._exit(0)\n" + _WRONG,
    "all memory": "a = []\nwhile True: a.append(bytearray(1 << 20))\n" + _WRONG,
    "all memory, when called": _while_called("a = []\nwhile True: a.append(bytearray(1 << 20))"),
    "all descriptors closed": "import os\nos.closerange(0, 64)\n" + _WRONG,
    "a name in other letters": "def dоuble(x):\n    return 2 * x\n",
    "no end of output": (
        "import os\nfor n in range(64):\n    try: os.write(n, b'x' * 300_000)\n    except OSError: pass\n" + _WRONG
    ),
    "a generator instead": "def double(x):\n    yield 2 * x\n",
}  # fmt: skip
