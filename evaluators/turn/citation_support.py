"""Whether what an answer cites supports what it says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from evaluators.asking.judge_input import build_judge_input, longest_field, shorten, size_of, to_json_value
from evaluators.asking.windows import WINDOW, WindowSettings, split_evenly
from evaluators.cases import Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.identity import turn_id_of
from evaluators.judge import Judge
from evaluators.mechanisms.citations import CitedSources, CitedStatement, cited_sources, cited_statements
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, ItemWindow, RatioSpec, VerdictSettings, score_ratio
from evaluators.results import Score, SkipReason

_RATIO = RatioSpec(noun="cited statements", predicate="are supported")


class CitationSupport(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The share of the answer's cited statements that are supported by the sources they cite.

    The statements are the sentences with a number such as [1] or [2, 3]. The judge sees each statement with the
    passages that it cites (results of tools if there are no passages), and gives it a verdict. An undecided statement,
    and one that cites only missing sources, counts as not supported. An answer without cited statements gets 1. Links
    and names of files are not read: `citations` says whether they exist.
    """

    kind: ClassVar[str] = "citation_support"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})
    prompts: ClassVar[tuple[str, ...]] = ("citation_support_verdicts.txt", *VERDICT_PROMPTS)

    first_number: int = Field(default=1, ge=0, le=1)
    """The number of the first passage, unless all passages begin with numbers of their own."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        sources = cited_sources(case, self.first_number)
        if not sources.numbered:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("retrieval_context"))
        cited = [
            (cited_statement, _numbers(cited_statement, sources))
            for cited_statement in cited_statements(case.actual_output or "")
        ]
        cited = [
            (statement, numbers)
            for statement, numbers in cited
            if any(isinstance(citation.target, int) for citation in statement.citations)
        ]
        answered = [(statement, numbers) for statement, numbers in cited if numbers]
        score = await score_ratio(
            judge,
            _RATIO,
            self.prompts[0],
            self._windows(case, answered, sources),
            max_windows=self.max_windows,
            seed=turn_id_of(case),
            weigh=self.verdicts == "probabilities",
        )
        return _with_missing(score, len(answered), len(cited) - len(answered))

    def _windows(
        self, case: Turn, statements: Sequence[tuple[CitedStatement, Sequence[int]]], sources: CitedSources
    ) -> Sequence[ItemWindow]:
        """Statements with their cited sources, as many at a time as fit into one question."""
        texts = {at: shorten(to_json_value(source), self.longest_text) for at, source in sources.numbered.items()}
        beside = build_judge_input(case, ("input",) if case.input else (), self.longest_text)
        items = [
            {"statement": shorten(statement.text, self.longest_text), "cites": list(numbers)}
            for statement, numbers in statements
        ]
        sizes = [
            size_of(item) + sum(size_of(texts[number]) for number in numbers)
            for item, (_, numbers) in zip(items, statements, strict=True)
        ]
        runs = split_evenly(sizes, longest_field(self.longest_text), WINDOW) if items else ()
        windows: list[ItemWindow] = []
        for run in runs:
            cited = dict.fromkeys(number for _, numbers in statements[run.start : run.stop] for number in numbers)
            visible = {str(number): texts[number] for number in sorted(cited)}
            whole = all(texts[number] == to_json_value(sources.numbered[number]) for number in cited)
            windows.append(
                ItemWindow(
                    items=items[run.start : run.stop],
                    materials=({**beside.content, "sources": visible},),
                    truncated=beside.truncated or not whole,
                )
            )
        return windows


def _numbers(statement: CitedStatement, sources: CitedSources) -> Sequence[int]:
    """The numbers that a statement cites and that exist."""
    numbers = [citation.target for citation in statement.citations if isinstance(citation.target, int)]
    return [number for number in dict.fromkeys(numbers) if number in sources.numbered]


def _with_missing(score: Score, judged: int, missing: int) -> Score:
    """The score with the statements that cite nothing that exists: these count as not supported."""
    if not missing:
        return score
    share = judged / (judged + missing)
    details = {**score.details, "missing": missing}
    if "uncertainty" in details:
        details["uncertainty"] = details["uncertainty"] * share
    explanation = f"{score.explanation} {missing} cite what does not exist."
    value = score.value * share
    return replace(score, value=value, raw_score=value, explanation=explanation, details=details)
