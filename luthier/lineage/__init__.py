"""Lineage: every phase, checkpoint and score is recorded in MLflow, with its pedigree.

MLflow owns checkpoints and their scores, DVC owns data and weights; tags link the two. What a clone's DVC brought is
recorded from `dvc.lock`, git and the checkpoint's own record when it is asked for.

| module | holds |
|---|---|
| `checkpoint`, `tree` | a checkpoint with everything known of it; its pedigree as text and as JSON |
| `tags`, `pages` | what is written on an MLflow run or model, for machines and for people |
| `store` | the MLflow store: opened, made, moved with its folder |
| `record`, `scores` | runs, checkpoints and scores are recorded |
| `imported` | checkpoints that DVC brought and no run here recorded |
| `registry` | checkpoints are found, promoted, printed, verified |
| `weights` | a checkpoint's files, also after another one has taken their place |
"""

from luthier.lineage.imported import import_checkpoints
from luthier.lineage.lookup import checkpoint_of, find, to_json, tree, verify
from luthier.lineage.record import PhaseRun, log_checkpoint, log_curves, start_phase
from luthier.lineage.registry import CANDIDATE, CHAMPION, Promotion, challenge, holder, promote
from luthier.lineage.scores import Scored, log_report, log_scores, read_scores, record_scores
from luthier.lineage.store import ensure_store
from luthier.lineage.weights import weights_of

__all__ = [
    "CANDIDATE",
    "CHAMPION",
    "PhaseRun",
    "Promotion",
    "Scored",
    "challenge",
    "checkpoint_of",
    "ensure_store",
    "find",
    "holder",
    "import_checkpoints",
    "log_checkpoint",
    "log_curves",
    "log_report",
    "log_scores",
    "promote",
    "read_scores",
    "record_scores",
    "start_phase",
    "to_json",
    "tree",
    "verify",
    "weights_of",
]
