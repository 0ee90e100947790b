from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from luthier.errors import HarnessError
from luthier.harnesses.graph.harness import GraphHarness
from luthier.harnesses.graph.json_form import from_json, schema, to_json

ROOT = Path(__file__).resolve().parents[4]

EVERYTHING = """\
state row: dict = {"a": [1, 2.5], "b": "ä"}
state votes: list[str] append = ["x"]
limits steps=20 visits=4
draft = ask_it(question, "a \\"text\\"", 1.5, true) max_tokens=9 n=2 temperature=0.7
check: verdict = vote(draft)
  if verdict == "wrong" and visits.check < 3 -> check
  if verdict in ["x", "y"] -> tail else tail
tail: answer = merge(draft, verdict)
impl ask_it:
  about: asks
  style: raw
  reads: [q, t, n, b]
  role: "You ask: 1"
  ask: |
    {q} {t}

    {n}
  shots:
    - q: "1"
      t: |
        two
        lines
      n: x
      b: y
      out: "7 # 8"
  stop: []
  parse: choice
  choices: ["a b", "\\u0007"]
  max_tokens: 9
  temperature: 0.25
"""


def test_json_and_text_are_the_same_document() -> None:
    graph = GraphHarness.parse(EVERYTHING)
    row = json.loads(json.dumps(to_json(graph)))
    assert from_json(row) == graph
    assert to_json(from_json(row)) == row


def test_a_large_model_may_leave_out_what_is_default() -> None:
    row = {"nodes": [{"writes": ["a"], "name": "direct", "args": [{"state": "question"}]}]}
    row["nodes"].append({"writes": ["answer"], "name": "sort", "args": [{"state": "a"}]})
    assert from_json(row).text == "a = direct(question)\nanswer = sort(a)"


def test_the_published_schema_is_the_generated_one() -> None:
    published = json.loads((ROOT / "docs" / "graph.schema.json").read_text(encoding="utf-8"))
    assert published == schema(), "write it again: luthier.files.write_json(Path('docs/graph.schema.json'), schema())"


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="comes with prefect")
    validator = jsonschema.Draft202012Validator(schema())
    jsonschema.Draft202012Validator.check_schema(schema())
    row = to_json(GraphHarness.parse(EVERYTHING))
    assert validator.is_valid(row)
    assert not validator.is_valid({**row, "nodes": []})
    assert not validator.is_valid({**row, "code": "import os"})


NODE: dict[str, Any] = {"writes": ["answer"], "name": "copy", "args": [{"state": "question"}]}


@pytest.mark.parametrize(
    ("row", "rule", "field"),
    [
        ([], "syntax", "document"),
        ({"nodes": []}, "syntax", "nodes"),
        ({"nodes": [{**NODE, "name": "a b"}]}, "syntax", "nodes.0.name"),
        ({"nodes": [{**NODE, "name": "copy(question)\nb = copy"}]}, "syntax", "nodes.0.name"),
        ({"nodes": [{**NODE, "code": "x"}]}, "syntax", "nodes.0.code"),
        ({"nodes": [{**NODE, "edges": [{"to": ["END"]}, {"to": ["END"]}]}]}, "syntax", "nodes.0.edges.0"),
        ({"nodes": [{**NODE, "edges": [{"if": "len(answer) + 1 > 2", "to": ["END"]}]}]}, "bad-guard", "guard"),
        ({"nodes": [{**NODE, "edges": [{"if": 'answer == "x" -> END', "to": ["END"]}]}]}, "bad-guard", "guard"),
        ({"nodes": [{**NODE, "edges": [{"to": ["gone"]}]}]}, "unknown-node", "edge"),
        ({"nodes": [NODE], "impl": {"ask_it": {"ask": "x"}}}, "unused-impl", "impl ask_it"),
        ({"nodes": [NODE], "state": {"x": {"type": "int", "init": "a"}}}, "bad-type", "initial value"),
        ({"nodes": [{**NODE, "name": "nothing"}]}, "unknown-name", "nothing"),
    ],
)
def test_a_wrong_object_is_refused_by_rule_and_field(row: Any, rule: str, field: str) -> None:
    with pytest.raises(HarnessError) as caught:
        from_json(row)
    assert (caught.value.rule, caught.value.field) == (rule, field)
    assert caught.value.fix
