"""The judge's program inside a fence: trusted tests in one process, the answer in another.

It runs as `__main__` of a sandbox, never imported by Luthier, and knows the standard library alone.
The answer's process is forked off before the judge has read tests, reference and tokens, so none of them
was ever in its memory; then the judge deletes their file and makes itself unreadable. The two exchange
data alone (numbers, texts, containers), never objects with behaviour: a result whose `==` always says
yes cannot cross, and nothing that the answer prints or exits with is listened to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

SECRET_FILE, ANSWER_FILE = "secret.json", "answer.json"
_MESSAGE_BYTES = 16 << 20
_MESSAGE_TEXT = 300
_SET_DUMPABLE = 4


class AnswerError(Exception):
    """The answer's own failure, as it reported it."""


def main() -> None:
    """Fork the answer off, judge it, and print the second token if and only if every test passed."""
    go_read, go_write = os.pipe()
    call_read, call_write = os.pipe()
    result_read, result_write = os.pipe()
    answer = os.fork()
    if answer == 0:
        for descriptor in (go_write, call_write, result_read):
            os.close(descriptor)
        _serve(go_read, call_read, result_write)
    for descriptor in (go_read, call_read, result_write):
        os.close(descriptor)
    secret = _take_secret()
    print(secret["ready"], flush=True)
    os.write(go_write, b"1")
    problem = _problem(secret, _remote(call_write, result_read))
    os.kill(answer, signal.SIGKILL)
    os.waitpid(answer, 0)
    if problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
    print("\n" + secret["passed"])


def _take_secret() -> dict[str, str]:
    import ctypes

    with open(SECRET_FILE, encoding="ascii") as file:
        secret: dict[str, str] = json.load(file)
    os.unlink(SECRET_FILE)
    if ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("the judge cannot hide its memory")
    return secret


def _problem(secret: dict[str, str], candidate: Callable[..., Any]) -> str:
    """One line on the first test that fails, "" when all pass."""
    random.seed(0)
    names: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(secret["reference"], "reference", "exec"), names)
        exec(compile(secret["tests"], "tests", "exec"), names)
        names["check"](candidate)
    except AnswerError as error:
        return str(error)
    except Exception as error:
        return _one_line(error)
    return ""


def _one_line(error: BaseException) -> str:
    text = str(error)
    return _short(f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__)


def _short(text: str) -> str:
    """One line of printable characters, cut before anything else is done with it."""
    printable = (character if character.isprintable() else " " for character in text[: 4 * _MESSAGE_TEXT])
    return " ".join("".join(printable).split())[:_MESSAGE_TEXT]


def _remote(call_write: int, result_read: int) -> Callable[..., Any]:
    """The answer's function, as the tests see it."""

    def candidate(*arguments: Any, **named: Any) -> Any:
        try:
            _send(call_write, encoded([list(arguments), named]))
            kind, value = _receive(result_read)
        except (OSError, EOFError) as error:
            raise AnswerError("the answer ended its process") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise AnswerError("the answer's process sent no readable result") from error
        if kind == "error":
            raise AnswerError(_short(str(value)))
        return decoded(value)

    return candidate


def _serve(go_read: int, call_read: int, result_write: int) -> None:
    """The answer's process: load the answer once the judge is safe, then answer calls until killed."""
    if not os.read(go_read, 1):
        os._exit(1)  # the judge gave up
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with open(ANSWER_FILE, encoding="ascii") as file:
        answer: dict[str, Any] = json.load(file)
    try:
        function = _loaded(answer["sources"], answer["entry_point"])
        failure = ""
    except BaseException as error:
        failure = _one_line(error)
    while True:
        arguments, named = decoded(_receive(call_read))
        try:
            reply = ["error", failure] if failure else ["value", encoded(function(*arguments, **named))]
        except BaseException as error:
            reply = ["error", _one_line(error)]
        _send(result_write, reply)


def _loaded(sources: list[str], entry_point: str) -> Callable[..., Any]:
    """The function of the first source that compiles; the first source's error when none does."""
    first: Exception | None = None
    for source in sources:
        try:
            code = compile(source, "answer", "exec")
        except Exception as error:
            first = first or error
            continue
        names: dict[str, Any] = {"__name__": "answer"}
        exec(code, names)
        function: Callable[..., Any] = names[entry_point]
        return function
    raise first or ValueError("no source")


def _send(descriptor: int, message: Any) -> None:
    data = json.dumps(message).encode()
    if len(data) > _MESSAGE_BYTES:
        raise ValueError("the value is too large")
    view = memoryview(len(data).to_bytes(8, "big") + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _receive(descriptor: int) -> Any:
    size = int.from_bytes(_exactly(descriptor, 8), "big")
    if size > _MESSAGE_BYTES:
        raise ValueError("the value is too large")
    return json.loads(_exactly(descriptor, size))


def _exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(descriptor, size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


def encoded(value: Any) -> Any:
    """A JSON value that stands for plain data; subclasses become their plain class.

    Raises:
        TypeError: the value is not plain data.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return ["int", format(int(value), "x")]
    if isinstance(value, float):
        return ["float", float.hex(value)]
    if isinstance(value, complex):
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, bytes):
        return ["bytes", bytes.hex(value)]
    if isinstance(value, dict):
        return ["dict", [[encoded(key), encoded(item)] for key, item in dict.items(value)]]
    for name, kind in (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if isinstance(value, kind):
            return [name, [encoded(item) for item in value]]
    raise TypeError(f"a value of type {type(value).__name__} is not plain data")


def decoded(value: Any) -> Any:
    """Inverse of `encoded`.

    Raises:
        ValueError: the value was not made by `encoded`.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if not isinstance(value, list) or len(value) < 2:
        raise ValueError("not an encoded value")
    kind, content = value[0], value[1]
    if kind == "int":
        return int(content, 16)
    if kind == "float":
        return float.fromhex(content)
    if kind == "complex":
        return complex(float.fromhex(content), float.fromhex(value[2]))
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {decoded(key): decoded(item) for key, item in content}
    if kind == "list":
        return [decoded(item) for item in content]
    if kind == "tuple":
        return tuple(decoded(item) for item in content)
    if kind == "set":
        return {decoded(item) for item in content}
    if kind == "frozenset":
        return frozenset(decoded(item) for item in content)
    raise ValueError(f"not an encoded value: {kind!r}")


if __name__ == "__main__":
    main()
