"""Where each stage writes: DVC's folders, relative to the project.

Apart from the stages, so that one that reads another's files does not reach its code.
"""

from pathlib import Path

QUESTIONS = Path("data/questions")
GRID = Path("data/grid")
TEACH = Path("data/teach")
PREFER = Path("data/preferences")
MODELS = Path("models")
SFT = MODELS / "sft"
DPO = MODELS / "dpo"
REINFORCE = MODELS / "reinforce"
EVALUATE = Path("data/evaluate")
SEARCH = Path("data/search")
COMPARE = Path("data/compare")
