import json

import pytest

from luthier.errors import InputError
from luthier.report.sections.data import read_report_data

METHOD = "mas_architect"


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("data/questions/test.jsonl", "questions"),
        ("data/grid/summary.json", "grid"),
        (f"data/teach/{METHOD}/log.json", "teach"),
        (f"data/teach/{METHOD}/rows.jsonl", "teach"),
        (f"models/sft/{METHOD}/training.json", "sft"),
        (f"models/reinforce/{METHOD}/training.json", "reinforce"),
        (f"data/evaluate/{METHOD}/scores.json", "evaluate"),
        (f"data/evaluate/{METHOD}/executions.jsonl", "evaluate"),
    ],
)
def test_a_missing_file_names_itself_and_the_stage_to_run(copy, path, stage):
    (copy / path).unlink()
    with pytest.raises(InputError) as error:
        read_report_data(copy, [METHOD])
    assert path in error.value.where
    assert f"dvc repro {stage}" in error.value.fix


def change(path, edit):
    row = json.loads(path.read_text())
    edit(row)
    path.write_text(json.dumps(row))


def test_a_missing_field_is_named(copy):
    change(copy / f"data/evaluate/{METHOD}/scores.json", lambda row: row.pop("oracle_over_pool"))
    with pytest.raises(InputError, match="field oracle_over_pool: missing"):
        read_report_data(copy, [METHOD])


def test_a_standing_of_another_version_is_refused(copy):
    change(copy / f"data/evaluate/{METHOD}/scores.json", lambda row: row["test"]["sft"].update(surprise=1))
    with pytest.raises(InputError, match=r"another version.*surprise"):
        read_report_data(copy, [METHOD])


def test_scores_without_a_trained_contender_are_refused(copy):
    def keep_baselines(row):
        del row["test"]["sft"], row["test"]["reinforce"]

    change(copy / f"data/evaluate/{METHOD}/scores.json", keep_baselines)
    with pytest.raises(InputError, match="no trained contender"):
        read_report_data(copy, [METHOD])


def test_results_on_other_questions_are_refused(copy):
    path = copy / "data/questions/test.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match="did not answer the present test questions"):
        read_report_data(copy, [METHOD])


def test_broken_json_is_one_clear_error(copy):
    (copy / "data/grid/summary.json").write_text("{")
    with pytest.raises(InputError, match=r"summary\.json: not a JSON object"):
        read_report_data(copy, [METHOD])


def test_results_are_those_that_were_written(data, project):
    rows = [json.loads(line) for line in (project / f"data/evaluate/{METHOD}/executions.jsonl").open()]
    results = [result for group in data.methods[0].results.values() for result in group]
    assert [json.loads(json.dumps(result.to_row())) for result in results] == rows


def test_learned_contenders_come_in_the_order_of_training(data):
    assert data.methods[0].scores.learned == ("sft", "reinforce")
    assert data.methods[0].scores.final == "reinforce"
    assert data.methods[0].seeds == (17,)
