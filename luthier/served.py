"""A checkpoint as MLflow loads it: questions in, harnesses and answers out, on the frozen target of the profile.

    model = mlflow.pyfunc.load_model("models:/mas_architect@candidate")
    model.predict(["Sort these words: pear, fig, apple"])

MLflow calls `_load_pyfunc` with the file `checkpoint.json` that `luthier.lineage.packaging` wrote beside `MLmodel`. It
names a checkpoint of this project, so it loads in the project's folder; the weights stay where DVC keeps them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.ask import ask, questions_of
from luthier.context import StageContext
from luthier.errors import InputError
from luthier.lineage import find, weights_of
from luthier.lineage.sources import find_root

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMN = "question"


class ServedCheckpoint:
    """A checkpoint that writes a harness for each question and has it run.

    Args:
        model_id: MLflow's id of the checkpoint.
        method: Whose generator it is.
        root: The project's folder.
    """

    def __init__(self, model_id: str, method: str, root: Path) -> None:
        self.model_id, self.method, self.root = model_id, method, root

    def predict(self, model_input: Any, params: Any = None) -> DataFrame:
        """Harness and answer of each question, in order.

        Args:
            model_input: A list of questions, a table with the column `question`, or one question.
            params: MLflow's; none is known.

        Returns:
            Columns question, harness, answer ("" where there is none), outcome ("ok", "invalid", ...), calls and
            tokens of the target.

        Raises:
            InputError: there is no question, or an empty one.
            TargetError: the machine failed.
        """
        from pandas import DataFrame

        questions = questions_of(_texts(model_input))
        with StageContext("ask", self.method, root=self.root) as context:
            results = ask(context, self.model_id, questions).results
        rows = [
            {
                COLUMN: question.text,
                "harness": result.text,
                "answer": result.execution.answer or "",
                "outcome": result.execution.outcome,
                "calls": result.execution.usage.calls,
                "tokens": result.execution.usage.prompt_tokens + result.execution.usage.completion_tokens,
            }
            for question, result in zip(questions, results, strict=True)
        ]
        return DataFrame(rows)


def _texts(model_input: Any) -> list[str]:
    if isinstance(model_input, str):
        return [model_input]
    if hasattr(model_input, "columns"):
        if COLUMN not in model_input.columns:
            raise InputError(f"the table has no column {COLUMN!r}", where="predict", fix=f"name it {COLUMN}")
        return [str(text) for text in model_input[COLUMN]]
    return [str(text) for text in model_input]


def _load_pyfunc(data_path: str) -> ServedCheckpoint:
    """MLflow's way in.

    Raises:
        InputError: not in the project's folder, or the checkpoint's files are gone.
    """
    reference = json.loads(Path(data_path).read_text(encoding="utf-8"))
    root = find_root()
    weights_of(find(reference["model_id"], root=root), root)
    return ServedCheckpoint(reference["model_id"], reference["method"], root)
