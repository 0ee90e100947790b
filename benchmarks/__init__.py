"""Measurements beside peers. Each prints one JSON line last and appends it to `benchmarks/results.jsonl`."""
