from luthier.ledger.budget import Amount
from luthier.ledger.entries import Line
from luthier.report.sections.money import money, read_spending
from luthier.report.sections.training_costs import training_costs


def line(phase, amount, account="train", role="generator") -> Line:
    return Line(account, role, "mas_architect", phase, amount, amount, 1, 0, 0)


def test_every_training_is_told_by_its_work_with_seconds_and_pace(project, params, read_page):
    seen = read_page(str(money(read_spending(project, params))))
    table = next(t for t in seen.tables if "update passes" in str(t["rows"]))
    assert table["rows"][1:] == [
        ["reinforce", "mas_architect", "samples drawn", "1,536", "9,600", "28,800", "72.0", "533"],
        ["reinforce", "mas_architect", "update passes", "192", "7,680", "3,840", "60.0", "192"],
        ["sft", "mas_architect", "update passes", "64", "2,560", "1,280", "20.0", "192"],
    ]


def test_a_generator_that_is_only_evaluated_was_not_trained(read_page):
    evaluated = line("evaluate", Amount(calls=3, seconds=1.0))
    assert training_costs([evaluated, line("grid", Amount(calls=2), role="target")]) is None


def test_the_reference_of_a_kl_term_has_its_own_row(read_page):
    lines = [line(f"reinforce{kind}", Amount(calls=1, prompt_tokens=2)) for kind in ("", " reference", " update")]
    rows = read_page(str(training_costs(lines))).tables[0]["rows"][1:]
    assert [row[2] for row in rows] == ["samples drawn", "reference for the KL term", "update passes"]
    assert {row[-1] for row in rows} == {"–"}, "without seconds there is no pace"
