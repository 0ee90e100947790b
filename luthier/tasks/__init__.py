"""Tasks: where questions come from, one file per kind of source."""
