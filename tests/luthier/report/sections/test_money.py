import pytest

from luthier.context import StageContext
from luthier.errors import StoreError
from luthier.ledger.budget import Amount
from luthier.ledger.entries import Context, Entry, Line
from luthier.ledger.ledger import Ledger
from luthier.ledger.store import Store
from luthier.report.sections.money import Spending, money, read_spending

METHOD = "mas_architect"


def test_totals_equal_the_ledger(project, params):
    store = Store(project / ".cache/store.sqlite")
    run = StageContext("evaluate", METHOD, params=params).run
    expected = Ledger(store, run=run).totals()
    store.close()
    found = read_spending(project, params)
    assert [line for line in found.lines if line.phase == "evaluate"] == expected
    assert expected[0].alone.calls > expected[0].paid.calls > 0


def test_accounts_roles_and_an_unknown_price_are_shown(project, params, read_page):
    seen = read_page(str(money(read_spending(project, params))))
    head, *rows = seen.tables[0]["rows"]
    lines = [dict(zip(head, row, strict=True)) for row in rows]
    assert {(line["account"], line["phase"]) for line in lines} >= {
        ("data", "grid"),
        ("data", "teach"),
        ("test", "evaluate"),
    }
    assert {line["price (USD)"] for line in lines} == {"unknown"}
    total = next(line for line in lines if line["account"] == "all of these" and line["basis"] == "paid")
    parts = [line for line in lines if line["basis"] == "paid" and line["account"] != "all of these"]
    assert int(total["calls"].replace(",", "")) == sum(int(line["calls"].replace(",", "")) for line in parts)


def test_a_known_price_is_summed_exactly():
    line = Line(
        "data", "target", "", "grid", Amount(calls=1, picodollars=0), Amount(calls=1, picodollars=10**9), 1, 1, 0
    )
    spent = Spending((line, line), ("grid@all",), (), (line, line), 1)
    assert "0.0020" in money(spent)
    assert "unknown<" not in money(spent)


def test_without_a_run_of_the_present_settings_the_latest_of_the_stage_counts(project, params):
    other = params.model_copy(update={"ask": params.ask.model_copy(update={"seed": 18})})
    spent, now = read_spending(project, other), read_spending(project, params)
    assert now.older == ()
    assert spent.runs == spent.older == now.runs
    assert spent.lines == now.lines
    assert "Made with other settings than the present ones" in money(spent)
    assert "Made with other settings" not in money(now)


def test_the_present_run_goes_before_a_later_one(copy, params):
    store = Store(copy / ".cache/store.sqlite")
    context = Context("data", "target", "", "grid")
    Ledger(store, run="grid@all/99/other").settle([], [Entry(context, "x", "answer", False, Amount(), Amount())])
    store.close()
    spent = read_spending(copy, params)
    assert StageContext("grid", params=params).run in spent.runs
    assert "grid@all/99/other" not in spent.runs
    assert "all 6 runs in this store" in money(spent)


def test_no_store_is_said_and_no_error(copy, params):
    (copy / ".cache/store.sqlite").unlink()
    assert read_spending(copy, params) is None
    assert "No ledger here" in money(None)


def test_a_store_without_a_ledger_is_empty(copy, params):
    path = copy / ".cache/store.sqlite"
    path.unlink()
    Store(path).close()
    assert read_spending(copy, params) is None


def test_a_damaged_store_is_named(copy, params):
    path = copy / ".cache/store.sqlite"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"store\.sqlite"):
        read_spending(copy, params)
