"""Executors: one file per harness kind."""
