"""Every hostile program and answer of `benchmarks/hostile`, behind both fences, as this user and as nobody."""

import os
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from benchmarks.hostile import all_kinds
from benchmarks.hostile.answers import all_answers
from benchmarks.sandbox_attacks import ANSWERS, FENCES, attack_as, users
from luthier.errors import SandboxError
from luthier.sandboxes import open_sandbox

KINDS = [*(kind.name for kind in all_kinds()), ANSWERS]
THIRD = 3  # as another user, one in three: the benchmark runs all


@pytest.fixture(scope="module")
def attacks():
    """What each fence and user came to; all start at once, as most programs wait for their limit."""
    pool = ThreadPoolExecutor(len(FENCES) * len(users()))
    started: dict[tuple[str, int], Future[list[dict[str, str]]]] = {}
    for fence in FENCES:
        try:
            open_sandbox(fence)
        except SandboxError:
            continue
        for user in users():
            take = 1 if user == os.geteuid() else THIRD
            started[fence, user] = pool.submit(attack_as, fence, user, take=take)
    return started


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("fence", FENCES)
def test_no_hostile_program_gets_through(attacks, fence, user, kind):
    if (fence, user) not in attacks:
        pytest.skip(f"{fence} is not usable here")
    rows = [row for row in attacks[fence, user].result() if row["kind"] == kind]
    assert len(rows) >= 4
    assert [row for row in rows if row["through"]] == []


def test_there_are_programs_of_every_kind():
    assert sum(len(kind.programs) for kind in all_kinds()) + len(all_answers()) > 180
