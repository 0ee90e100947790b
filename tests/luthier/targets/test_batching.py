"""What every engine does around its own work."""

from __future__ import annotations

from luthier.targets.batching import leaders


def test_one_prompt_of_each_beginning_leads() -> None:
    shared = [1, 2, 3, 4]
    prompts = [[*shared, 9], [7, 7], [*shared, 5, 6], [1, 8, 8, 8]]
    # Sorted: 2 (1 2 3 4 5 6), 0 (shares 4 of its 5), 3 (shares 1 of its 4), 1 (shares none).
    assert leaders(prompts) == [2, 3, 1]


def test_leaders_of_few() -> None:
    assert leaders([]) == []
    assert leaders([[1, 2]]) == [0]
    assert leaders([[1, 2], [1, 2, 3, 4]]) == [0]
    assert leaders([[1, 2], [1, 2, 3, 4, 5]]) == [0, 1]
