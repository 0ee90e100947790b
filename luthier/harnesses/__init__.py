"""Harness kinds: one file per kind."""
