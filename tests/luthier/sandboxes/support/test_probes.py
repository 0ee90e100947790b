import os
import subprocess
import sys

import pytest

from luthier.errors import SandboxError
from luthier.sandbox import SandboxResult
from luthier.sandboxes.support import probes


class Unfenced:
    """What Luthier never does: the program in a bare subprocess. It shows that the probes can tell."""

    name = "unfenced"

    def run(self, program, *, files=None, limits=None):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        return SandboxResult("ok", done.stdout, done.stderr, done.returncode, 0.0)

    def self_check(self):
        probes.check(self)


class Silent(Unfenced):
    """A fence in which nothing runs proves nothing."""

    name = "silent"

    def run(self, program, *, files=None, limits=None):
        return SandboxResult("error", "", "cannot run", 1, 0.0)


def test_all_probes_hold(sandbox):
    assert probes.breaches(sandbox) == []


def test_probes_get_through_where_there_is_no_fence():
    names = {probe.name for probe in probes.all_probes(1, 1)}
    assert len(names) == 11
    # Whether these are refused without a fence is up to the system: namespaces and tracing may be locked.
    undecided = {"a user namespace of its own", "taking over the first process"}
    expected = names if os.geteuid() == 0 else names - {"writing under /usr"}
    assert set(probes.breaches(Unfenced())) - undecided == expected - undecided
    with pytest.raises(SandboxError, match="unfenced fence does not hold against: reading /etc/passwd"):
        Unfenced().self_check()


def test_a_probe_without_an_answer_counts_as_a_breach():
    assert len(probes.breaches(Silent())) >= 10
