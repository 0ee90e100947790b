from luthier.report.sections.samples import choose


def test_each_situation_comes_before_a_second_of_any(data):
    method = data.methods[0]
    questions = [q for q in data.questions["test"] if q.family in ("gcd", "gcd_squared", "weekday")]
    chosen = choose(method, questions)
    assert [situation for _, situation in chosen] == ["rescued", "wrong", "solved"]
    assert [question.family for question, _ in chosen] == ["gcd_squared", "weekday", "gcd"]


def test_families_take_turns(data):
    questions = [q for q in data.questions["test"] if q.family in ("gcd", "word_sorting")]
    assert {question.family for question, _ in choose(data.methods[0], questions)[:2]} == {"gcd", "word_sorting"}


def test_fewer_questions_than_places_are_all_shown(data):
    assert len(choose(data.methods[0], data.questions["test"][:1])) == 1
    assert choose(data.methods[0], []) == []
