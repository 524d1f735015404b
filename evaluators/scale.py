"""The forms of judges' answers: a scale of whole numbers, words of a fixed set, one answer per numbered item."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

ReasonPlace = Literal["before", "after", "none"]
"""The place of the reason in a judge's answer."""


class Reply(BaseModel):
    """The form of a judge's answer: these keys and no others. By default the reason comes first."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NumberedReply(Reply):
    """The entry for one item of a list, under the item's number. Judges that no schema binds may leave it out."""

    number: int | SkipJsonSchema[None] = None


NUMBERS = 'Begin the entry of each item with the item\'s "number", before the reason.'
"""The reminder of questions whose answers have an entry for each item."""

Numbered = TypeVar("Numbered", bound=NumberedReply)


def sort_by_number(replies: Sequence[Numbered]) -> tuple[Numbered, ...]:
    """The replies in the order of their items; unchanged if none has a number.

    Raises:
        PydanticCustomError: an item's number is missing, or is there twice.
    """
    numbers = [reply.number for reply in replies if reply.number is not None]
    if not numbers:
        return tuple(replies)
    # Consecutive, not from 1: some judges count from 0, or by the numbers of the turns that the items are.
    if len(numbers) != len(replies) or set(numbers) != set(range(min(numbers), min(numbers) + len(replies))):
        raise PydanticCustomError("not_one_for_each_number", "each item needs one entry with its number")
    return tuple(sorted(replies, key=lambda reply: reply.number or 0))


IN_ORDER = AfterValidator(sort_by_number)
"""Sorts the entries of a list by the numbers of their items."""


def plain_word(value: Any) -> Any:
    """A word without capitals, quotation marks and full stops: `Yes.` is yes."""
    return value.strip(" \t\n.!*'\"`").casefold() if isinstance(value, str) else value


class RatedReply(Reply):
    """A reason and a whole number. The number has the limits of the scale: see `Scale.reply`."""

    reason: str
    score: int


class ScoreThenReason(Reply):
    """A whole number and then its reason."""

    score: int
    reason: str


class ScoreAlone(Reply):
    """A whole number without a reason."""

    score: int


AnyRating = RatedReply | ScoreThenReason | ScoreAlone
AnyForm = TypeVar("AnyForm", bound=AnyRating)
_FORMS: Mapping[ReasonPlace, type[AnyRating]] = {"before": RatedReply, "after": ScoreThenReason, "none": ScoreAlone}


def reason_in(reply: Reply) -> str | None:
    """The reason of a reply; None if its form has none."""
    return getattr(reply, "reason", None)


def reject_bool(value: Any) -> Any:
    """Refuse true and false, which Python takes for numbers."""
    if isinstance(value, bool):
        raise ValueError("not a number")  # noqa: TRY004 - pydantic turns a ValueError into a validation error
    return value


@dataclass(frozen=True, slots=True)
class Scale:
    """The whole numbers from `lowest` to `highest`, at least two of them; `highest` is the best.

    Raises:
        ValueError: `highest` is not above `lowest`.
    """

    lowest: int
    highest: int

    def __post_init__(self) -> None:
        if self.highest <= self.lowest:
            raise ValueError(f"a scale needs a highest above its lowest, not {self.lowest} to {self.highest}")

    def normalize(self, raw: float) -> float:
        """The place of a raw score between the ends: lowest -> 0, highest -> 1.

        Raises:
            ValueError: it is off the scale.
        """
        if not self.lowest <= raw <= self.highest:
            raise ValueError("the score is off the scale")
        return min(1.0, max(0.0, (raw - self.lowest) / (self.highest - self.lowest)))

    @property
    def reply(self) -> type[RatedReply]:
        """The form of an answer: a reason, then a whole number on this scale."""
        return _rated(RatedReply, self.lowest, self.highest)

    def reply_with(self, place: ReasonPlace) -> type[AnyRating]:
        """The form of an answer with its reason in another place, or without."""
        return _rated(_FORMS[place], self.lowest, self.highest)

    @property
    def length(self) -> int:
        """The difference of the ends."""
        return self.highest - self.lowest

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest."""
        return (float(self.lowest), float(self.highest))

    @property
    def numerals(self) -> frozenset[str]:
        """Every number of the scale in its written form."""
        return _numerals(self)


BINARY = Scale(0, 1)


@lru_cache(maxsize=1000)
def _numerals(scale: Scale) -> frozenset[str]:
    return frozenset(str(value) for value in range(scale.lowest, scale.highest + 1))


@cache
def _rated(base: type[AnyForm], lowest: int, highest: int) -> type[AnyForm]:
    score = Annotated[int, Field(ge=lowest, le=highest), BeforeValidator(reject_bool)]
    text = "A reason, then a score." if base is RatedReply else "A score."
    return create_model("Rated", __base__=base, __doc__=text, score=(score, ...))
