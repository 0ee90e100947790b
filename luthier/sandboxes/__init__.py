"""Fences around generated code; `open_sandbox` opens the strongest one that holds here."""

from __future__ import annotations

import functools
import warnings

from luthier.errors import InputError, SandboxError
from luthier.sandbox import INSTALL_FIX, Sandbox


def open_sandbox(name: str = "auto") -> Sandbox:
    """A sandbox that has passed its probes; probed once per process and name.

    `auto` takes bubblewrap and, where that is missing or its fence does not hold, Landlock with a
    visible warning. There is no third choice: generated code never runs in a bare subprocess.

    Args:
        name: auto, bubblewrap or landlock.

    Raises:
        InputError: the name is unknown.
        SandboxError: no fence can be built here; the message says what to install.
    """
    if name == "auto":
        return _first_that_holds()
    if name in ("bubblewrap", "landlock"):
        return _checked(name)
    raise InputError(f"sandbox {name!r} is unknown", where="sandbox", fix="use one of: auto, bubblewrap, landlock")


@functools.cache
def _first_that_holds() -> Sandbox:
    try:
        return _checked("bubblewrap")
    except SandboxError as error:
        first = error
    try:
        second = _checked("landlock")
    except SandboxError as error:
        raise SandboxError(
            f"no fence holds on this machine (bubblewrap: {first.problem}; Landlock: {error.problem})",
            where="sandbox",
            fix=INSTALL_FIX,
        ) from error
    warnings.warn(
        f"bubblewrap is not usable ({first.problem}); generated code runs behind Landlock instead, which "
        "hides what files hold but not that they exist",
        RuntimeWarning,
        stacklevel=3,
    )
    return second


@functools.cache
def _checked(name: str) -> Sandbox:
    sandbox: Sandbox
    if name == "bubblewrap":
        from luthier.sandboxes.bubblewrap import BubblewrapSandbox

        sandbox = BubblewrapSandbox()
    else:
        from luthier.sandboxes.landlock import LandlockSandbox

        sandbox = LandlockSandbox()
    sandbox.self_check()
    return sandbox
