"""SST-2: the sentiment of one sentence (Socher et al. 2013; GLUE, arXiv 1804.07461)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from luthier.question import Question, Split
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.sources import Form, SourceRow, read_records
from luthier.tasks.scoring import plain

_LABELS = ("negative", "positive")
_WORDS = {
    "negative": frozenset(("negative", "neg", "bad", "terrible", "0")),
    "positive": frozenset(("positive", "pos", "good", "great", "1")),
}


class Sst2(Benchmark):
    """TSV files `sentence<TAB>label` (0 negative, 1 positive), or the hub form `stanfordnlp/sst2`.

    The text is the sentence alone: what to do with it is the harness's part, as in prompt search.
    A 16-shot folder (`train.tsv`, `dev.tsv`) without a test file takes the `test.tsv` of the folder above
    it, as the prompt-tuning papers do. GLUE's test rows have no label (-1) and are left out; half of its
    validation rows then become our test split (ours). Label words of prompt tuning ("great", "terrible")
    count as labels (ours).
    """

    name = "sst2"
    form = Form("sst2", (".tsv", ".jsonl", ".parquet"), columns=("sentence", "label"))
    example = "stanfordnlp/sst2"

    def records(self) -> Iterable[SourceRow]:
        records = read_records(self.source, self.form)
        shared_test = Path(self.source).parent / "test.tsv"
        if Path(self.source).is_dir() and not any(r.split == "test" for r in records) and shared_test.is_file():
            records += read_records(str(shared_test), self.form)
        return records

    def keep(self, record: SourceRow) -> bool:
        return record.row.get("label") not in (-1, "-1")

    def content(self, record: SourceRow) -> str:
        return record.text("sentence", "text")

    def question(self, record: SourceRow, split: Split) -> Question:
        label = record.row.get("label")
        if str(label) not in ("0", "1"):
            raise record.error(f"field label: {label!r} is not 0 or 1", "write 0 for negative, 1 for positive")
        return Question.make(
            task=self.name, text=self.content(record).strip(), reference=_LABELS[int(str(label))], split=split
        )

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        return any(plain(stated) in _WORDS[question.reference] for stated in readings(text))
