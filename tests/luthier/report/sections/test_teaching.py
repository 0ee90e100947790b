from luthier.report.sections.teaching import funnel_steps


def test_each_step_of_the_funnel_says_what_fell_away_before_it():
    counts = {
        "executed": 100,
        "infra_error": 1,
        "invalid": 4,
        "noop": 10,
        "incomplete": 5,
        "wrong": 40,
        "duplicate": 8,
        "cheating": 2,
        "correct": 30,
        "unreliable": 12,
        "questions_taught": 9,
        "rows": 9,
    }
    assert funnel_steps(counts) == [
        ("candidates executed", 100, 0),
        ("valid and answered", 80, 20),
        ("answered right", 40, 40),
        ("not repeated for their question", 32, 8),
        ("honest", 30, 2),
        ("dependable on their family", 18, 12),
        ("kept as rows", 9, 9),
    ]


def test_filters_that_caught_nothing_are_not_written_and_count_as_none():
    assert [left for _, left, _ in funnel_steps({"executed": 2, "correct": 2, "rows": 1})] == [2, 2, 2, 2, 2, 2, 1]
