from __future__ import annotations

from luthier.harnesses.graph.supersteps import Position, Topology


def topology(outcomes: list[list[tuple[int, ...]]], joins: set[int]) -> Topology:
    positions = {f"n{index + 1}": index for index in range(len(outcomes))}
    return Topology(frozenset(joins), tuple(map(tuple, outcomes)), positions)


def test_a_join_waits_only_while_something_can_reach_it() -> None:
    shape = topology([[(1, 2)], [(3,)], [(4,), ()], [()], [(3,)]], {3})
    assert shape.advance(Position((0,)), [(1, 2)]) == Position((1, 2))
    assert shape.advance(Position((1, 2)), [(3,), (4,)]) == Position((4,), (3,))
    assert shape.advance(Position((4,), (3,)), [(3,)]) == Position((3,))
    assert shape.advance(Position((1, 2)), [(3,), ()]) == Position((3,))


def test_a_join_further_down_waits_for_a_waiting_join_above() -> None:
    shape = topology([[(1, 2)], [(3,)], [(4,)], [(4,)], [()]], {3, 4})
    assert shape.advance(Position((1, 2)), [(3,), (4,)]) == Position((3,), (4,))
    assert shape.advance(Position((3,), (4,)), [(4,)]) == Position((4,))


def test_joins_that_wait_for_each_other_fire_in_document_order() -> None:
    shape = topology([[(1, 2)], [(2,), ()], [(1,), ()]], {1, 2})
    assert shape.advance(Position((0,)), [(1, 2)]) == Position((1,), (2,))


def test_a_node_named_twice_runs_once_and_the_end_is_empty() -> None:
    shape = topology([[(1, 2)], [(3,)], [(3,)], [()]], set())
    assert shape.advance(Position((1, 2)), [(3,), (3,)]) == Position((3,))
    assert shape.advance(Position((3,)), [()]) == Position(())
