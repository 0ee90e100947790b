"""Tools: pure functions that a harness may call, the values that they take, retrieval."""
