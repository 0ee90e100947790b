from luthier.harnesses.graph.harness import GraphHarness
from luthier.report.sections.systems import drawing, shape


def parsed(text):
    return GraphHarness.parse(text)


def test_graphs_that_differ_in_names_alone_have_one_shape():
    ours = parsed("a = words(question)\nb = sort(a)\nanswer = first(b)")
    theirs = parsed("list = words(question)\nordered = sort(list)\nanswer = first(ordered)")
    assert ours.digest != theirs.digest
    assert shape(ours) == shape(theirs)


def test_other_tools_or_another_flow_are_another_shape():
    ours = parsed("a = words(question)\nb = sort(a)\nanswer = first(b)")
    assert shape(ours) != shape(parsed("a = words(question)\nb = sort(a)\nanswer = last(b)"))
    assert shape(ours) != shape(parsed("a = words(question)\nb = sort(a)\nanswer = first(a)"))


def test_a_state_named_like_a_tool_does_not_rename_the_tool():
    ours = parsed("sort = words(question)\nanswer = sort(sort)")
    assert shape(ours) == shape(parsed("a = words(question)\nanswer = sort(a)"))


def test_a_drawing_holds_picture_and_text_and_names_of_its_own():
    text = "answer = direct(question)"
    first, second = drawing(text, "one"), drawing(text, "two")
    assert "<svg" in first
    assert "<code>answer = direct(question)</code>" in first
    assert first != second
    assert drawing(text, "one") == first


def test_an_invalid_text_is_shown_with_its_rule():
    shown = drawing("answer = nosuch(question) <b>", "one")
    assert "&lt;b&gt;" in shown
    assert "Invalid, rule" in shown
    assert "(empty)" in drawing("", "one")
