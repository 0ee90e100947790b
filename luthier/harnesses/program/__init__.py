"""Harness kind `program`: modules with instruction and demonstrations."""
