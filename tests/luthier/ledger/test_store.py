import sqlite3
import subprocess
import sys
import textwrap

import pytest

from luthier.errors import StoreError
from luthier.execution import Execution, Step
from luthier.ledger.repair import repair
from luthier.ledger.store import Store, StoredCall, StoredExecution
from luthier.target import Completion, Message, Request, Usage


def call(text: str) -> StoredCall:
    request = Request((Message("user", text),), stop=("\n",))
    return StoredCall(request.key("m"), "m", request, Completion(f"<{text}>", "stop", Usage(1, 3, 2, 0.25)))


def execution(outcome: str = "ok") -> Execution:
    trace = (Step("n1", "llm", {"question": "q"}, ["a", 1], Usage(1, 2, 3)),)
    return Execution("q", "h", "graph", "m", 0, outcome, "a", 1.0, "good", "", trace, Usage(1, 2, 3))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache" / "store.db")


def test_calls_and_executions_come_back_as_they_went(store):
    first, second = call("a"), call("ü")
    store.put_calls([first, second])
    store.put_executions([StoredExecution("k", execution(), (Usage(1, 2, 3, 0.5),))])
    again = Store(store.path)
    assert again.calls([first.key, second.key, "absent"]) == {
        first.key: first.completion,
        second.key: second.completion,
    }
    found = again.executions(["k"])["k"]
    assert found.execution.to_row() == execution().to_row()
    assert found.costs == (Usage(1, 2, 3, 0.5),)


def test_many_keys_are_read_in_parts(store):
    calls = [call(str(number)) for number in range(1203)]
    store.put_calls(calls)
    assert store.calls([c.key for c in calls]) == {c.key: c.completion for c in calls}


def test_the_first_answer_of_a_key_stays(store):
    first = call("a")
    store.put_calls([first])
    store.put_calls([StoredCall(first.key, "m", first.request, Completion("other", "stop", Usage()))])
    assert store.calls([first.key])[first.key].text == "<a>"
    assert store.count("calls") == 1


def test_an_infra_error_is_never_stored(store):
    with pytest.raises(StoreError, match="infra_error is not a result"):
        store.put_executions([StoredExecution("k", execution("infra_error"), ())])
    assert store.count("executions") == 0


@pytest.mark.parametrize(
    ("table", "column"),
    [("calls", "completion"), ("calls", "request"), ("executions", "row"), ("executions", "costs")],
)
def test_a_corrupted_row_is_named_and_repaired(store, table, column):
    good, bad = call("good"), call("bad")
    store.put_calls([good, bad])
    store.put_executions([StoredExecution(good.key, execution(), ()), StoredExecution(bad.key, execution(), ())])
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute(f"UPDATE {table} SET {column} = {column} || ' ' WHERE key = ?", [bad.key])
    db.close()
    read = store.calls if table == "calls" else store.executions
    assert list(read([good.key])) == [good.key]
    with pytest.raises(StoreError) as caught:
        read([good.key, bad.key])
    for part in (str(store.path), f"table {table}", bad.key, "luthier store repair"):
        assert part in str(caught.value)
    with pytest.raises(StoreError, match="another process has the store open"):
        repair(store.path)
    store.close()
    assert repair(store.path).dropped == 1
    read = getattr(Store(store.path), table)
    assert list(read([good.key, bad.key])) == [good.key]
    assert repair(store.path).damaged is None


def test_a_full_disk_is_a_clear_error_and_keeps_what_was_written(store):
    kept = call("kept")
    store.put_calls([kept])
    with store.transaction() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match=r"full.*Fix: free disk space"):
        store.put_calls([call(f"{number} " * 500) for number in range(50)])
    assert store.count("calls") == 1
    assert store.calls([kept.key]) == {kept.key: kept.completion}


def test_a_read_only_file_is_a_clear_error(store):
    with store.transaction() as db:
        db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=r"readonly.*Fix: correct the rights"):
        store.put_calls([call("a")])


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the store"):
        Store(tmp_path / "file" / "store.db")


def test_a_file_that_is_no_store_is_a_clear_error(tmp_path):
    (tmp_path / "store.db").write_bytes(b"not a database, but long enough to be read as one" * 20)
    with pytest.raises(StoreError, match=r"not a database.*move it away"):
        Store(tmp_path / "store.db")


def test_another_schema_version_is_a_clear_error(store):
    with store.transaction() as db:
        db.execute("UPDATE schema SET version = 99")
    with pytest.raises(StoreError, match=r"field schema.version: 99.*Fix: move the file away"):
        Store(store.path)


def test_a_broken_transaction_leaves_nothing(store):
    def write_then_fail():
        with store.transaction():
            store.put_calls([call("a")])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_then_fail()
    assert store.count("calls") == 0
    store.put_calls([call("b")])
    assert store.count("calls") == 1


def test_four_processes_start_cold_and_write_at_once(tmp_path):
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from luthier.ledger.ledger import Amount, Budget, Context, Entry, Ledger
        from luthier.ledger.store import Store, StoredCall
        from luthier.target import Completion, Request, Usage
        path, me = Path(sys.argv[1]), int(sys.argv[2])
        store = Store(path)
        ledger = Ledger(store, Budget(calls=10_000), run="shared")
        for start in range(0, 200, 10):
            calls = []
            for number in range(start, start + 10):
                request = Request(f"shared {number}")
                calls.append(StoredCall(request.key("m"), "m", request, Completion("x", "stop", Usage(1, 1, 1))))
            ids, refused = ledger.reserve_many("search", [Amount(calls=1)] * 10)
            assert refused is None
            context = Context("search", "target", "m", "p")
            one = Amount(calls=1)
            entries = [Entry(context, f"{me} {start} {n}", "answer", False, one, one) for n in range(10)]
            with store.transaction():
                store.put_calls(calls)
                ledger.settle(ids, entries)
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "new" / "store.db")]
    processes = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in range(4)]
    problems = [process.communicate()[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], problems
    from luthier.ledger.ledger import Ledger

    store = Store(tmp_path / "new" / "store.db")
    assert store.count("calls") == 200
    assert Ledger(store, run="shared").spent().calls == 800
    assert Ledger(store, run="shared").totals()[0].paid.calls == 800
