import os
import random
import subprocess
import sys

import pytest

from luthier.errors import InputError
from luthier.ledger.budget import Budget
from luthier.methods.mipro.spaces import proposed_space
from luthier.search.demonstrations import Bootstrap, reference_label
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.tpe import Space, TpeSampler, TpeSearch, default_trials

VARIABLES = (("demonstrations a", 6), ("demonstrations b", 6), ("instruction a", 6), ("instruction b", 6))
CAP = 100


def planted(seed):
    """An optimum where an instruction pays fully only with its demonstrations: 0, .3 and 1 for 0, 1, 2 hits."""
    rng = random.Random(f"planted {seed}")
    best = tuple(rng.randrange(size) for _, size in VARIABLES)

    def score(choice):
        hits = [mine == right for mine, right in zip(choice, best, strict=True)]
        return sum((0.0, 0.3, 1.0)[hits[part] + hits[part + 2]] / 2 for part in (0, 1))

    return best, score


def evaluations(ask, tell, best, score):
    """Evaluations until the optimum was tried, CAP + 1 when it was not."""
    for number in range(1, CAP + 1):
        choice = ask()
        tell(score(choice))
        if choice == best:
            return number
    return CAP + 1


def test_it_finds_an_interacting_optimum_in_fewer_evaluations_than_random_search():
    wins = found = 0
    for seed in range(10):
        best, score = planted(seed)
        sampler, rng = TpeSampler(VARIABLES, seed), random.Random(seed)
        ours = evaluations(sampler.ask, sampler.tell, best, score)
        blind = evaluations(
            lambda rng=rng: tuple(rng.randrange(size) for _, size in VARIABLES), lambda value: None, best, score
        )
        wins += ours < blind
        found += ours <= CAP
    assert wins >= 8
    assert found >= 9


def test_seed_0_is_honoured():
    asked = []
    for seed in (0, 0, 9):
        sampler, choices = TpeSampler(VARIABLES, seed), []
        for _ in range(15):
            choices.append(sampler.ask())
            sampler.tell(float(sum(choices[-1])))
        asked.append(choices)
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


def test_scores_that_nobody_asked_for_are_learned_from():
    """Told that one corner is good often enough, the sampler leaves the random phase and goes there."""
    sampler = TpeSampler((("instruction a", 8), ("instruction b", 8)), 1)
    for number in range(60):
        choice = (number % 8, number // 8)
        sampler.add(choice, 1.0 if choice == (3, 5) else 0.0)
    drawn = []
    for _ in range(20):
        drawn.append(sampler.ask())
        sampler.tell(0.0 if drawn[-1] != (3, 5) else 1.0)
    assert drawn.count((3, 5)) > 3


PARTS = ("Write only the answer.", "Read the whole question.", "Work in small steps.")
TEXTS = ("Answer.", *PARTS, f"{PARTS[0]} {PARTS[1]}", f"{PARTS[0]} {PARTS[1]} {PARTS[2]}")


def fixed(session):
    label = reference_label("prompt", session.train[0])
    return Space({"prompt": TEXTS}, {"prompt": ((), (label,))})


@pytest.mark.parametrize(("validation", "trials"), [(40, 3), (50, 2), (51, 5), (60, 7)])
def test_rollouts_equal_the_formula(toys, validation, trials):
    toy = toys("formula", validation=validation)
    search = TpeSearch(fixed, trials)
    result = toy.search(search, demonstrations=True)
    spent = toy.ledger().spent("alone").rollouts
    full = -(-trials // 5)
    assert spent == (validation * (1 + trials) if validation <= 50 else validation + 35 * trials + full * validation)
    assert search.forecast(validation) == (spent, "close to random search: the sampler's first 10 trials are random")
    assert result.reason == "finished"


@pytest.mark.parametrize(
    ("variables", "values", "trials"),
    [(2, 6, 10), (1, 6, 9), (2, 12, 18), (4, 12, 28), (8, 12, 57), (8, 18, 66), (4, 18, 33), (2, 18, 27)],
)
def test_the_default_number_of_trials(variables, values, trials):
    """The `auto` of dspy 3.4.1; its "20" for light, M = 2 with demonstrations is 4 variables of 6 values."""
    assert default_trials(variables, values) == trials


def test_only_full_validations_make_a_best_and_each_score_has_its_questions(toys):
    toy = toys("full", validation=56)
    result = toy.search(TpeSearch(fixed, 12, minibatch=8, full_every=4, minibatch_from=50), demonstrations=True)
    rows = [row for row in result.rows if row.event == "evaluate"]
    assert [len(row.detail["questions"]) for row in rows] == [56, *([8] * 4 + [56]) * 3]
    best = 0.0
    for row in rows:
        if row.detail["full"]:
            best = max(best, sum(row.detail["scores"]) / 56)
        assert row.best == best
    assert result.score == best > 0.25
    validated = [row.candidate for row in rows if row.detail["full"]]
    assert len(set(validated)) == len(validated)


def test_the_schedule_ends_quietly_when_everything_was_validated(toys):
    toy = toys("small", validation=52)
    search = TpeSearch(lambda session: Space({"prompt": TEXTS[:2]}, {}), 8, minibatch=4, full_every=1)
    result = toy.search(search)
    assert result.reason == "finished"
    assert sum(row.detail.get("full", False) for row in result.rows) == 2


def test_without_a_threshold_every_trial_is_a_mini_batch(toys):
    """MIPRO's schedule, in which a small validation set is a mini-batch of itself: 10 + 2 x 10 + 10 rollouts."""
    search = TpeSearch(fixed, 2, tell_full=False, minibatch_from=0)
    toy = toys("v1", validation=10)
    toy.search(search, demonstrations=True)
    assert toy.ledger().spent("alone").rollouts == search.forecast(10)[0] == 10 + 2 * 10 + 10


def test_twice_and_killed_give_the_same_log(toys):
    space = proposed_space(GrammarProposer(), 4, bootstrap=Bootstrap(2, 2), sets=4)
    search = TpeSearch(space, 14, minibatch=4, full_every=5, minibatch_from=0)
    whole, again, stopped = toys("whole"), toys("again"), toys("stopped")
    for toy in (whole, again):
        toy.search(search, demonstrations=True)
    stopped.search(search, Budget(rollouts=70), demonstrations=True)
    assert len(stopped.log()) < len(whole.log())
    stopped.search(search, demonstrations=True)
    assert whole.log() == again.log() == stopped.log()
    assert whole.bill() == again.bill() == stopped.bill()


HASHES = """
from luthier.search.tpe import TpeSampler
sampler = TpeSampler((("b", 5), ("a", 7), ("c", 3)), 4)
for _ in range(30):
    choice = sampler.ask()
    sampler.tell(float(choice[0] == 2) + float(choice[1] == 6) * float(choice[2] == 1))
    print(choice)

import random
from luthier.search.candidate import Candidate
from luthier.search.proposers.grammar import GrammarProposer
from luthier.search.selectors import ParetoFront
rng = random.Random("seed:label")
matrix = [[rng.choice((0.0, 0.5, 1.0)) for _ in range(6)] for _ in range(8)]
print([ParetoFront().choose(matrix, rng) for _ in range(30)])
print(GrammarProposer().propose(Candidate.make({"a": "x"}), "a", [], rng=rng, purpose="p"))
"""


def test_the_hash_seed_changes_nothing():
    outputs = []
    for seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", HASHES], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 32


def test_nothing_to_choose_is_refused():
    with pytest.raises(InputError, match="nothing to choose"):
        TpeSampler((), 0)
