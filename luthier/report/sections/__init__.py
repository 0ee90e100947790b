"""The report of one build, section by section."""
