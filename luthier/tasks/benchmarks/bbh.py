"""BIG-Bench Hard (Suzgun et al. 2022, arXiv 2210.09261) and Extra Hard (Kazemi et al. 2025, arXiv 2502.19187)."""

from __future__ import annotations

import re
from string import ascii_uppercase

from luthier.question import Question, Split
from luthier.tasks.answers import readings
from luthier.tasks.benchmarks.benchmark import Benchmark
from luthier.tasks.benchmarks.options import chosen, permute, render, split_options
from luthier.tasks.benchmarks.sources import Form, SourceRow
from luthier.tasks.scoring import plain, same_text, undressed

_LETTER = re.compile(r"\(([A-Z])\)")


class BigBenchHard(Benchmark):
    """`{canary, examples: [{input, target}]}`, one file a subtask; hub `lukaemon/bbh:<subtask>`.

    The family is the subtask. The publisher has no splits; they follow the question's content (ours).
    Lettered options are shown in our own order, recorded in `metadata["permutation"]`; the reference is
    the letter in that order. Other answers are compared as whole texts: case, outer punctuation and
    spaces aside, and, for a list of words without commas, commas aside (ours).
    """

    name = "bbh"
    form = Form("bbh", (".json", ".jsonl", ".parquet"))
    example = "lukaemon/bbh:navigate"

    def content(self, record: SourceRow) -> str:
        return record.text("input", "question")

    def question(self, record: SourceRow, split: Split) -> Question:
        text, target = record.text("input", "question").strip(), record.text("target", "answer").strip()
        family = str(record.row.get("task") or record.group)
        stem, options = split_options(text)
        chosen = _LETTER.fullmatch(target)
        if not options or chosen is None:
            return Question.make(task=self.name, family=family, text=text, reference=target, split=split)
        published = ascii_uppercase.index(chosen[1])
        if published >= len(options):
            raise record.error(f"field target: {target} is not among the {len(options)} options", "correct the letter")
        permutation = permute(options, text)
        shown = [options[place] for place in permutation]
        return Question.make(
            task=self.name,
            family=family,
            text=f"{stem}\n{render(shown)}",
            reference=f"({ascii_uppercase[permutation.index(published)]})",
            split=split,
            metadata={"choices": shown, "permutation": list(permutation)},
        )

    def correct(self, question: Question, text: str) -> bool:
        """See `Benchmark.correct`."""
        found, reference = readings(text), question.reference
        choices = question.metadata.get("choices", ())
        if choices:
            return chosen(found, reference, choices)
        if " " in reference and "," not in reference:
            return any(_words(stated) == _words(reference) for stated in found if plain(stated))
        return any(same_text(form, reference) for stated in found for form in (stated, undressed(stated)))


class BigBenchExtraHard(BigBenchHard):
    """The same form and rules as BIG-Bench Hard; hub `BBEH/bbeh`, whose `task` field is the family."""

    name = "bbeh"
    example = "BBEH/bbeh"


def _words(text: str) -> list[str]:
    return plain(text).replace(",", " ").split()
