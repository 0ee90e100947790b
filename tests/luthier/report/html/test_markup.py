from luthier.report.html.markup import Html, element, escape, join


def test_text_is_escaped_and_markup_is_not():
    inner = element("b", "1 < 2")
    assert inner == "<b>1 &lt; 2</b>"
    assert element("p", inner, " & more") == "<p><b>1 &lt; 2</b> &amp; more</p>"


def test_attributes_are_escaped_renamed_and_left_out():
    made = element("i", class_="a b", stroke_width=1.50, title='"><script>', hidden=True, open=False, id=None)
    assert made == '<i class="a b" stroke-width="1.5" title="&quot;&gt;&lt;script&gt;" hidden></i>'


def test_children_may_be_nested_numbers_and_nothing():
    assert join(["a", [None, 3]], Html("<br>")) == "a3<br>"


def test_void_elements_are_not_closed():
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_characters_that_html_forbids_become_the_replacement_character():
    made = escape("a\x00b\ud800c\x1bd\te\n")
    assert made == "a\ufffdb\ufffdc\ufffdd\te\n"
    made.encode()
