"""Targets: one file per engine."""
