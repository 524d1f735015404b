"""Vectors of texts, as a judge of embeddings returns them, and how alike two of them are."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema

from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Judge, Prompt

Part = Literal["query", "passage"]
Vector = Annotated[list[float], Field(min_length=1, max_length=65_536)]


class Embeddings(BaseModel):
    """A vector for each text, in their order. `embeddings_form` makes the subclass for a certain number of texts.

    `truncated` says that only the start of a text was embedded.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    vectors: list[Vector]
    truncated: SkipJsonSchema[bool] = False  # no judge is asked for it


@lru_cache(maxsize=64)
def embeddings_form(count: int) -> type[Embeddings]:
    """The form of the vectors of so many texts."""
    vectors = Annotated[list[Vector], Field(min_length=count, max_length=count)]
    return create_model("Embeddings", __base__=Embeddings, vectors=(vectors, ...))


async def embed(
    judge: Judge, instructions: str, texts: Sequence[str], first: Part, others: Part
) -> tuple[list[list[float]], bool]:
    """The vectors of texts (equal texts are embedded once), and whether only the start of a text was embedded.

    `first` and `others` are the roles of the first text and of the other texts, for models that embed queries
    differently.

    Raises:
        JudgeError: there are no vectors, or they have different lengths.
    """
    distinct: dict[str, Part] = {}
    for text in texts:
        distinct.setdefault(text, others if distinct else first)
    verdict = await judge.ask(
        Prompt(instructions, {"texts": list(distinct), "parts": list(distinct.values())}),
        embeddings_form(len(distinct)),
    )
    vectors = verdict.reply.vectors
    if len({len(vector) for vector in vectors}) > 1:
        raise JudgeReplyInvalid("the vectors have different lengths")
    by_text = dict(zip(distinct, vectors, strict=True))
    return [by_text[text] for text in texts], verdict.reply.truncated


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors, from -1 to 1: Σ ab / (√Σ a² · √Σ b²).

    Raises:
        JudgeReplyInvalid: a vector is all zeros, so there is no angle.
    """
    norms = math.hypot(*one) * math.hypot(*other)
    if not norms or not math.isfinite(norms):
        raise JudgeReplyInvalid("a vector has no direction")
    return min(1.0, max(-1.0, math.fsum(a * b for a, b in zip(one, other, strict=True)) / norms))
