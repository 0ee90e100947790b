"""The comparison page as text, and in a real browser driven by keys alone."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from luthier.evaluation.compare import compare
from luthier.evaluation.method_run import use_label, use_scale
from luthier.evaluation.results import BreakEvenPair, Pair
from luthier.evaluation.statistics import BreakEven, Difference, Interval
from luthier.report.comparison.charts import compact
from luthier.report.comparison.data import LONGEST_VALUE
from luthier.report.comparison.page import render_comparison
from luthier.report.comparison.tables import verdict, when
from luthier.report.html.numbers import percent


def load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


synthetic, browsing = load("synthetic_contest"), load("browser")


@pytest.fixture(scope="module")
def runs():
    return synthetic.contest(size=36)


@pytest.fixture(scope="module")
def comparison(runs):
    return compare(runs[0], "target_alone", resamples=300)


@pytest.fixture(scope="module")
def page(runs, comparison):
    return render_comparison(comparison, *runs)


@pytest.fixture(scope="module")
def seen(page, read_page):
    return read_page(page)


@pytest.fixture(scope="module")
def data(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


# --- the text ---------------------------------------------------------------------------------------------------


def test_the_table_says_what_was_computed(seen, comparison):
    group = comparison.groups[0]
    _, rows = seen.table("36 test questions; baseline target alone")
    for item in group.standings:
        row = next(value for name, value in rows.items() if name.startswith(item.label))
        assert row["score"] == percent(item.score.mean)
        assert row["tokens per use"] == compact(item.use_cost)
        assert row["tokens before use"] == compact(item.before_use)
        marks = [mark for mark in ("front", "cheaper, but worse") if row["contender"].endswith(mark)]
        assert marks == ([] if not item.on_front else ["cheaper, but worse"] if item.below_best else ["front"])
        gap = group.against_baseline(item.method, "target_alone")
        assert row["rescued / regressed"] == (f"{gap.rescued} / {gap.regressed}" if gap else "–")


def test_break_even_stands_in_words(seen, comparison):
    crossings = comparison.groups[0].crossings
    table = next(table for table in seen.tables if table["caption"].startswith("Uses are alike"))
    assert [row[2] for row in table["rows"][1:]] == [verdict(item) for item in crossings]
    assert {item.result.verdict for item in crossings} >= {"from", "never"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (BreakEven("from", 12.2, 9.1, None, 0.9, 1, 1), "from 13 uses on [10, no upper bound]"),
        (BreakEven("until", 7.0, 3.0, 9.0, 1, -1, -1), "only for fewer than 7 uses [3, 9]: it costs more per use"),
        (BreakEven("always", None, None, None, 1, -1, 1), "from the first use on"),
        (BreakEven("never", None, None, None, 1, 1, 0), "never: it costs more before use and saves nothing per use"),
        (BreakEven("equal", None, None, None, 1, 0, 0), "never: both always cost the same"),
    ],
)
def test_verdicts(found, words):
    assert when(found) == words


def crossing(found, low, high):
    gap = Interval((low + high) / 2, low, high, 10)
    return BreakEvenPair(Pair("l", "s", Difference(gap, 1, 2), gap), found)


def test_what_costs_less_and_scores_significantly_less_is_no_saving():
    cheaper = BreakEven("from", 90.2, 80.0, 100.0, 1.0, 1.0, 1.0)
    said = "from 91 uses on [80, 100]"
    assert verdict(crossing(cheaper, -0.4, -0.3)) == f"{said}, but it scores 35.0 points [−40.0, −30.0] less: no saving"
    assert verdict(crossing(cheaper, -0.4, 0.1)) == said
    assert verdict(crossing(cheaper, 0.1, 0.2)) == said
    never = BreakEven("never", None, None, None, 1, 1, 0)
    assert verdict(crossing(never, -0.4, -0.3)) == "never: it costs more before use and saves nothing per use"


def test_a_price_per_use_is_printed_for_a_thousand_uses():
    assert (use_label("price"), use_scale("price")) == ("USD per thousand uses", 1000.0)
    assert (use_label("tokens"), use_scale("tokens")) == ("tokens per use", 1.0)


def test_generalisation_has_two_tables_and_no_mean_of_them(seen):
    _, families = seen.table("On the target that they were made for")
    assert [name.split(" ")[0] for name in families] == ["MAS-Architect", "MAS-GPT"]
    _, targets = seen.table("Families that were trained on")
    assert {row["second target"] for row in targets.values()} != {synthetic.OWN}
    assert len(targets) == 2


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(page, seen):
    assert "://" not in page
    policy = next(value for tag, name, value in seen.attributes if tag == "meta" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert not {"link", "img", "iframe", "object"} & set(seen.tags)
    assert seen.tags.count("script") == 2  # the data and the code; the hostile question made none
    assert len(seen.ids) == len(set(seen.ids))


def test_texts_are_embedded_once_and_cut(runs, data):
    assert len(data["texts"]) == len(set(data["texts"]))
    assert len(data["rows"]) == sum(len(run.trials) for run in runs[0])
    assert any(synthetic.HOSTILE in question[3] for question in data["questions"])
    contenders, asked = synthetic.contest(size=6, seeds=(1,), transfer=False)
    execution = contenders[0].trials[0].execution
    object.__setattr__(execution, "answer", "x" * 1000)
    cut = render_comparison(compare(contenders, "target_alone", resamples=10), contenders, asked)
    assert "x" * LONGEST_VALUE + "\\u2026 (600 more characters)" in cut
    assert "x" * (LONGEST_VALUE + 1) not in cut
    assert "Not a headline." in cut


def test_several_tasks_and_budgets_share_one_table(read_page):
    contenders, asked = [], []
    for task in ("mixed", "hops"):
        for budget in (("small", 200_000), ("large", 800_000)):
            found, questions = synthetic.contest((1,), budget, task, size=6, transfer=False)
            contenders += [run for run in found if run.kind != "fixed" or budget[0] == "small"]
            asked += questions
    seen = read_page(render_comparison(compare(contenders, "target_alone", resamples=50), contenders, asked))
    head = seen.tables[0]["rows"][0]
    assert head[1:3] == ["task", "budget"]
    assert len(seen.tables[0]["rows"]) == 1 + 4 * len(synthetic.METHODS)
    assert "pooled over questions" in seen.tables[1]["rows"][0]


# --- the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "comparison.html"
    path.write_text(page)
    return path


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    if browsing.BINARY is None:
        pytest.skip("no Chromium on this machine")
    window = browsing.Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture
def browser(window, file):
    """The page as just opened."""
    window.events.clear()
    window.open(file.as_uri())
    return window


ROWS = "[...document.querySelectorAll('#list tbody tr')].map((row) => row.cells[1].textContent)"
FOCUS = "(document.activeElement.name || document.activeElement.id || document.activeElement.className)"


def tab_to(browser, name, key="Tab"):
    for _ in range(40):
        if browser.run(FOCUS) == name:
            return
        browser.press(key)
    raise AssertionError(f"{name} cannot be reached by Tab")


def test_filters_work_by_keyboard(browser):
    assert len(browser.run(ROWS)) == 36
    tab_to(browser, "family")
    browser.press("ArrowDown", "ArrowDown")
    assert browser.run(ROWS) == ["gcd"] * 6
    assert browser.run("document.getElementById('shown').textContent").startswith("6 of 36 questions")
    tab_to(browser, "answer")
    browser.press("ArrowDown")
    right = browser.run("document.getElementById('shown').textContent")
    assert int(re.search(r"(\d+) executions", right).group(1)) < 6 * 17
    browser.press("Home")
    tab_to(browser, "method", "Shift+Tab")
    browser.press("ArrowDown")
    shown = "[...document.querySelectorAll('#standings tbody tr')].filter((row) => row.offsetParent).length"
    assert browser.run(shown) == 1
    assert browser.run("document.querySelectorAll('#list thead .upright').length") == 1
    assert browser.run("document.querySelectorAll('#costs g.dim').length") > 6


def test_search_reset_and_sorting_work_by_keyboard(browser):
    browser.press("/", "word_sorting")
    assert browser.run(FOCUS) == "text"
    assert set(browser.run(ROWS)) == {"word_sorting"}
    browser.press("Tab", "Enter")
    browser.wait(f"{ROWS}.length === 36")
    browser.run("document.querySelectorAll('#standings thead button')[1].focus()")
    column = "[...document.querySelectorAll('#standings tbody tr')].map((row) => Number(row.cells[1].dataset.value))"
    browser.press("Enter")
    assert browser.run(column) == sorted(browser.run(column), reverse=True)
    browser.press("Enter")
    assert browser.run(column) == sorted(browser.run(column))
    assert browser.run("document.querySelectorAll('#standings thead th')[1].ariaSort") == "ascending"


def test_a_question_opens_side_by_side_and_closes_by_keyboard(browser):
    tab_to(browser, "to-questions")  # past all headings that sort
    browser.press("Enter")
    tab_to(browser, "ask")
    browser.press("ArrowDown", "Enter")
    sides = "document.querySelectorAll('#drill[open] .side').length"
    assert browser.run(sides) == len(synthetic.METHODS)
    shown = browser.run("document.getElementById('drill').innerText")
    for needed in ("Reference:", "draft = solve(question)", "I think it is", "generator +", "seed 18"):
        assert needed in shown
    first = browser.run("document.getElementById('drill-title').textContent")
    browser.press("ArrowRight")
    assert browser.run("document.getElementById('drill-title').textContent") != first
    browser.press("Escape")
    assert browser.run("document.getElementById('drill').open") is False
    assert browser.run(FOCUS) == "ask"  # focus is back on the question


def test_the_second_target_is_never_mixed_in(browser):
    executions = (
        "Number(document.getElementById('shown').textContent.match(/, ([\\d,]+) executions/)[1].replace(',', ''))"
    )
    own = browser.run(executions)
    tab_to(browser, "target")
    browser.press("ArrowDown")
    assert browser.run(executions) == 36 * 2 * 3
    assert own == 36 * (5 * 3 + 2)


def test_the_page_runs_clean_and_nothing_overflows(browser):
    assert browser.run("document.title") == "Luthier: comparison on mixed"  # the hostile question did not run
    problems = [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    assert problems == []
    requests = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in requests if not url.startswith(("file:", "about:"))] == []
    for width in (1280, 800, 400):
        browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        assert browser.run("document.documentElement.scrollWidth") <= width
