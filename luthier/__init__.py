"""Luthier: train or search the harness of a frozen language model, on one ledger.

The nouns live one per file (`luthier/question.py`, `luthier/target.py`, ...); a plural folder beside
a noun holds its variants (`luthier/targets/`). `docs/design.md` is the map.
"""

__version__ = "0.1.0"
