import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from luthier.files import digest_file
from luthier.report.html.numbers import percent
from luthier.report.html.page import render
from luthier.report.sections.data import ReportData, read_report_data

METHOD = "mas_architect"
RENDER = """
import sys
from pathlib import Path
from luthier.settings.load import load_params
from luthier.report.sections.data import read_report_data
from luthier.report.html.page import render
root = Path(sys.argv[1])
sys.stdout.write(render(read_report_data(root, ["mas_architect"]), load_params(root), root))
"""


@pytest.fixture(scope="module")
def page(data, params, project):
    return render(data, params, project)


@pytest.fixture(scope="module")
def seen(page, read_page):
    return read_page(page)


@pytest.fixture(scope="module")
def scores(project):
    return json.loads((project / f"data/evaluate/{METHOD}/scores.json").read_text())


def test_the_sentence_says_the_figures_of_the_scores(seen, scores):
    lead = seen.text[seen.text.index("On 30 test questions") :][:600]
    for name in ("reinforce", "target_alone", "best_fixed"):
        pooled = scores["test"][name]["pooled"]
        assert f"{percent(pooled['mean'])} [{100 * pooled['low']:.1f}, {100 * pooled['high']:.1f}]" in lead
    gap = scores["differences"]["reinforce_minus_best_fixed"]["interval"]["mean"]
    assert f"{100 * gap:+.1f} points" in lead
    assert scores["best_fixed_configuration"] in lead


def test_one_seed_is_no_headline_and_three_are(seen, data, params, project):
    assert "One seed (17): not a headline." in seen.text
    method = data.methods[0]
    seeds = {
        name: tuple(
            replace(row, execution=replace(row.execution, seed=17 + index % 3)) for index, row in enumerate(rows)
        )
        for name, rows in method.results.items()
    }
    assert "not a headline" not in render(replace(data, methods=(replace(method, results=seeds),)), params, project)


def test_the_table_of_contenders_equals_the_scores(seen, scores):
    _, rows = seen.table("MAS-Architect on 30 test questions")
    labels = {"target_alone": "target alone", "sft": "after sft", "reinforce": "after reinforce"}
    for name, label in labels.items():
        row, standing = rows[label], scores["test"][name]
        assert row["score"] == percent(standing["pooled"]["mean"])
        assert row["equal weight"] == percent(standing["equal_weight"])
        assert row["target tokens"] == f"{standing['target_tokens']:,.0f}"
        assert row["generator tokens"] == f"{standing['generator_tokens']:,.0f}"
        assert row["calls"] == f"{standing['calls']:.2f}"
    assert rows["after reinforce"]["equal weight"] != rows["after reinforce"]["score"]
    size = scores["oracle_over_pool"]["configurations"]
    bound = rows[f"oracle over the pool of {size} upper bound, looks at the scores"]
    assert bound["score"] == percent(scores["oracle_over_pool"]["pooled"]["mean"])


def test_differences_name_rescued_and_regressed(seen, scores):
    _, rows = seen.table("Rescued and regressed")
    row, gap = rows["after reinforce − after sft"], scores["differences"]["reinforce_minus_sft"]
    assert (row["rescued"], row["regressed"]) == (str(gap["rescued"]), str(gap["regressed"]))
    assert row["reading"] == "better"


def test_every_family_stands_in_the_heat_table(seen, scores, builder):
    _, rows = seen.table("Mean score in per cent of the family's test questions")
    assert set(rows) == set(builder.KINDS)
    for family, row in rows.items():
        assert row["after reinforce"] == f"{100 * scores['test']['reinforce']['by_family'][family]:.0f}"
        assert (row["teacher rows"] == "held back") == (family in builder.HELD_BACK)
    assert rows["sort_first_reversed"]["kind"] == "three steps"


def test_chance_is_computed_from_the_references(seen):
    assert "Chance level of syllogism is 50.0 %: what always answering “No” scores (2 of 4 references)." in seen.text


def test_outcomes_are_counted_and_explained(seen, scores):
    _, rows = seen.table("How executions ended")
    outcomes = scores["test"]["sft"]["outcomes"]
    assert outcomes["invalid"] == 4
    assert rows["after sft"]["invalid"] == "4 (13.3 %)"
    _, reasons = seen.table("Why trained contenders gave no answer")
    assert reasons["after sft"]["rule"] == "syntax"
    assert reasons["after sft"]["times"] == "4"


def test_new_compositions_are_drawn_and_marked(page, seen, scores):
    novel = {item["family"] for item in scores["novel_compositions"]["reinforce"]}
    assert {"gcd_squared", "sort_first_length", "sort_first_reversed"} <= novel
    part = page[page.index(f'id="{METHOD}-novel"') : page.index(f'id="{METHOD}-samples"')]
    drawn = len(scores["novel_compositions"]["reinforce"]) + len(scores["novel_compositions"]["sft"])
    assert part.count("<svg") == drawn
    assert part.count("family held back from the teacher") == 3
    assert part.count("no better than a constant answer") == 2  # yes_no on syllogism, after sft and after reinforce


def test_samples_show_graph_trace_and_broken_text(page, seen):
    part = page[page.index(f'id="{METHOD}-samples"') : page.index(f'id="{METHOD}-teach"')]
    for kind in ("one step", "two steps", "three steps", "no tool helps", "never shown"):
        assert f"<h3>{kind}</h3>" in part
    assert part.count("<details") == 14
    assert "Invalid, rule syntax: line 1" in part
    _, trace = seen.table("Trace")
    first = trace["numbers n1, llm"] if "numbers n1, llm" in trace else trace["words n1, llm"]
    assert int(first["tokens"]) > 0


def test_every_arrowhead_belongs_to_its_own_picture(page, seen):
    used = re.findall(r"url\(#([\w-]+)\)", page)
    assert used
    assert set(used) <= set(seen.ids)


def test_ids_are_unique_and_links_lead_somewhere(seen):
    assert len(seen.ids) == len(set(seen.ids))
    links = [value for _, name, value in seen.attributes if name == "href"]
    assert {link[1:] for link in links} <= set(seen.ids)


def test_the_page_names_no_address_and_runs_nothing(page, seen):
    assert "script" not in seen.tags
    assert not {"link", "img", "iframe", "object", "image", "use"} & set(seen.tags)
    assert "://" not in page.partition("params.yaml and its profile")[0]
    assert "@import" not in page
    assert ("meta", "http-equiv", "Content-Security-Policy") in seen.attributes
    assert not [name for _, name, _ in seen.attributes if name.startswith("on") or name == "src"]


def test_hostile_texts_are_shown_and_not_run(page, seen, builder):
    assert builder.HOSTILE in seen.text
    assert "<script" not in page
    assert "&lt;td" not in page


def test_rows_fit_their_headings(seen):
    assert len(seen.tables) > 12
    for table in seen.tables:
        widths = {len(row) for row in table["rows"]}
        assert len(widths) == 1, table["caption"]


def test_the_funnel_ends_in_the_rows(seen, project):
    counts = json.loads((project / f"data/teach/{METHOD}/log.json").read_text())["counts"]
    _, rows = seen.table("From candidates to teacher rows")
    assert rows["candidates executed"]["left"] == str(counts["executed"])
    assert rows["honest"]["left"] == str(counts["correct"])
    assert rows["dependable on their family"]["left"] == str(counts["correct"] - counts.get("unreliable", 0))
    assert rows["kept as rows"]["left"] == str(counts["rows"])


def test_the_grid_marks_the_best_and_how_many_were_compared(seen, project):
    summary = json.loads((project / "data/grid/summary.json").read_text())
    best = summary["best_on_validation"]
    _, rows = seen.table("Mean validation score")
    assert rows[f"{best} best"]["all"] == f"{100 * summary['best_validation_score']:.0f}"
    assert len(rows) == summary["compared"]
    assert f"{summary['compared']} configurations were compared" in seen.text


def test_rendering_does_not_depend_on_the_hash_seed(project):
    pages = [
        subprocess.run(
            [sys.executable, "-c", RENDER, str(project)],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert pages[0] == pages[1] != b""


def test_two_methods_share_a_page_without_clashes(data, params, project, read_page):
    first = data.methods[0]
    second = replace(first, card=replace(first.card, name="other", title="Other"), teaching=None)
    seen = read_page(render(ReportData(data.questions, data.grid, (first, second)), params, project))
    assert len(seen.ids) == len(set(seen.ids))
    assert "Other scores" in seen.text
    assert "MAS-Architect scores" in seen.text
    assert "other-teach" not in seen.ids


def test_a_family_that_only_the_machine_failed_is_no_zero(copy, params, read_page):
    """infra_error leaves the denominator: the cell is empty and the page warns."""
    path = copy / f"data/evaluate/{METHOD}/scores.json"
    row = json.loads(path.read_text())
    del row["test"]["sft"]["by_family"]["weekday"]
    row["test"]["sft"]["outcomes"] = {"infra_error": 4, "ok": 26}
    path.write_text(json.dumps(row))
    seen = read_page(render(read_report_data(copy, [METHOD]), params, copy))
    _, rows = seen.table("Mean score in per cent of the family's test questions")
    assert rows["weekday"]["after sft"] == "–"
    assert "The machine failed on some questions, which are not scored: after sft 4." in seen.text


def test_the_page_reads_and_never_writes(copy, params):
    before = {path: digest_file(path) for path in sorted(copy.rglob("*")) if path.is_file()}
    render(read_report_data(copy, [METHOD]), params, copy)
    after = {path: digest_file(path) for path in sorted(copy.rglob("*")) if path.is_file()}
    changed = [path for path in after if after[path] != before.get(path)]
    assert [path for path in changed if not path.name.endswith(("-wal", "-shm"))] == []
