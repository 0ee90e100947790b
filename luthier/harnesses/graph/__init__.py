"""Harness kind `graph`: a declared multi-agent system as a short text."""
