"""The report: one self-contained page, and the same numbers for `dvc metrics` and `dvc plots`."""
