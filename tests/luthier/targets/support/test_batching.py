"""What every engine does around its own work."""

from __future__ import annotations

from luthier.targets.support.batching import leaders


def test_one_prompt_of_each_beginning_leads() -> None:
    shared = [1, 2, 3, 4]
    prompts = [[*shared, 9], [7, 7], [*shared, 5, 6], [1, 8, 8, 8]]
    # Sorted: 2 (1 2 3 4 5 6), 0 (shares 4 of its 5 with 2), 3 (shares 1 of its 4), 1 (shares none).
    assert leaders(prompts) == [2, 3, 1]


def test_a_follower_leads_nobody() -> None:
    first, second, third = [1, 1, 1, 1, 1, 1], [1, 1, 1, 5, 5, 5], [1, 1, 1, 5, 5, 6, 6, 6]
    assert leaders([first, second, third]) == [0, 2]  # the third shares 5 of its 8 with the second, 3 with the first


def test_leaders_of_few() -> None:
    assert leaders([]) == []
    assert leaders([[1, 2]]) == [0]
    assert leaders([[1, 2], [1, 2, 3, 4]]) == [0]
    assert leaders([[1, 2], [1, 2, 3, 4, 5]]) == [0, 1]
