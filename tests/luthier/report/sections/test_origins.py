from luthier.report.sections.data import read_report_data
from luthier.report.sections.origins import links, origins

METHOD = "mas_architect"


def by_name(root, phase):
    records = {record.phase: record for record in read_report_data(root, [METHOD]).methods[0].records}
    return {link.what: link for link in links(records[phase], METHOD, root)}


def test_a_whole_chain_fits_from_checkpoint_to_questions(project):
    reinforce, sft = by_name(project, "reinforce"), by_name(project, "sft")
    assert reinforce["parent"].fits
    assert reinforce["questions"].fits
    assert sft["rows"].fits
    assert sft["parent"].fits is None  # the base model lies outside of the pipeline
    assert "base" not in sft  # the same digest as the parent is told once


def test_changed_inputs_are_found(copy):
    with (copy / f"data/teach/{METHOD}/rows.jsonl").open("a") as file:
        file.write("\n")
    (copy / f"models/sft/{METHOD}/model.safetensors").write_bytes(b"other")
    assert by_name(copy, "sft")["rows"].fits is False
    assert by_name(copy, "reinforce")["parent"].fits is False


def test_the_section_says_what_is_trained_and_with_which_settings(project, data):
    text = origins(data.methods, project)
    assert "Trained: the generator that writes the graph." in text
    assert "another on disk today" not in text
    assert "learning_rate" in text
    assert "No MLflow store here" in text
    assert "No dvc.lock here" in text
    assert "profile: smoke" in text


def test_outputs_of_the_pipeline_come_from_the_lock(copy, data):
    (copy / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  questions:\n    cmd: x\n    outs:\n    - path: data/questions\n"
        "      md5: abcdef0123456789.dir\n      size: 4321\n      nfiles: 3\n"
        "  search@gepa:\n    cmd: x\n    outs:\n    - path: data/search/gepa\n"
        "      md5: 0123456789abcdef.dir\n      size: 77\n      nfiles: 1\n"
    )
    text = origins(data.methods, copy)
    assert "data/questions" in text
    assert "4,321" in text
    assert "abcdef012345" in text
    assert "test 30" in text
    assert "data/search/gepa" not in text
    assert "; 1 that it names are not in this folder and left out" in text
