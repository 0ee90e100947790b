"""Loaders and scorers of published benchmarks."""
