"""Whether what an answer cites exists."""

from typing import ClassVar

from pydantic import Field

from evaluators.cases import Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.mechanisms.citations import cited_sources, find_citations
from evaluators.results import Score, SkipReason


class Citations(CodeEvaluator[Turn]):
    """The share of the answer's citations that exist among what the turn retrieved.

    Citations are numbers such as [1], [2, 3] or [doc4], links, and names of files in brackets. A number exists if a
    passage has it (without passages, a tool result). A link exists if a passage, a result, the user or the instructions
    contain it. A file name exists if a passage or result contains it; if none of these names a file, file names are not
    counted. An answer without citations gets 1, or 0 with `required`. A turn without passages and results is skipped.
    """

    kind: ClassVar[str] = "citations"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})

    required: bool = False
    """Whether an answer without any citation is wrong."""
    links: bool = True
    """Whether links are citations, too."""
    first_number: int = Field(default=1, ge=0, le=1)
    """The number of the first passage, unless all passages begin with numbers of their own."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        if not case.retrieval_context and all(call.result in (None, "") for call in case.tools_called):
            raise NotApplicable(SkipReason.MISSING_FIELD.text("retrieval_context"))
        sources = cited_sources(case, self.first_number)
        cited = [
            citation for citation in find_citations(case.actual_output or "") if self.links or not citation.is_link
        ]
        exists = [(citation, known) for citation in cited if (known := sources.has(citation)) is not None]
        missing = [citation.target for citation, known in exists if not known]
        named = [str(target) for target in dict.fromkeys(missing)][:20]
        details: dict[str, Json] = {"cited": len(exists), "missing": list(named)}
        if len(exists) < len(cited):
            details["not_verifiable"] = len(cited) - len(exists)
        if not exists:
            value, explanation = (
                float(not self.required or bool(cited)),
                "The answer cites nothing that can be looked up.",
            )
        else:
            value = 1 - len(missing) / len(exists)
            explanation = f"{len(exists) - len(missing)} of {len(exists)} citations exist"
            explanation += f"; there is no {', '.join(named[:3])}" if missing else ""
        return Score(value=value, explanation=explanation, details=details)
