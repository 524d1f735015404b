"""Capabilities of an endpoint, learnt from its refusals: OpenAI-compatible servers differ, and do not say how."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

_FORMAT_WORDS = (
    "response_format",
    "json_schema",
    "json_object",
    "structured",
    "schema",
    "grammar",
    "guided",
    "output_config",
    "output_format",
    "tool_choice",
    "text.format",
)

_BOUND_WORDS = ("maxlength", "maxitems", "minitems", "repetition")

_SEVERAL = re.compile(r"(^|[\s'\"`])n([\s'\"`=,.:]|$)|best_of|multiple (choices|completions)")
_COUNT = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that may be put into a request. Starts with everything; each refusal takes one thing away.

    `top_logprobs` is how many alternatives per token, 0 for no token probabilities. `limit` is the name under which the
    endpoint takes the length limit of the answer, None if under neither.
    """

    format: Literal["json_schema", "json_object", "text"] = "json_schema"
    top_logprobs: int = 20
    limit: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"
    temperature: bool = True
    several: bool = True
    """Whether one request may ask for several answers."""
    bounds: Literal["unneeded", "needed", "refused"] = "unneeded"
    """Whether schemas bound the length of texts and lists: needed once an answer was cut off."""
    optional: tuple[str, ...] = ()
    """Names of further parameters that it takes, of those that may be left out."""

    def without(self, complaint: str) -> Capabilities | None:
        """The features without the one that a refusal complains of; None if it names none that is left."""
        complaint = complaint.lower()
        for name in self.optional:
            if name in complaint:
                return replace(self, optional=tuple(each for each in self.optional if each != name))
        if self.bounds == "needed" and any(word in complaint for word in _BOUND_WORDS):
            return replace(self, bounds="refused")
        if "max_tokens" in complaint or "max_completion_tokens" in complaint:
            return self._without_limit()
        if "top_logprobs" in complaint and self.top_logprobs:
            return replace(self, top_logprobs=_fewer(complaint, self.top_logprobs))
        if "logprobs" in complaint and self.top_logprobs:
            return replace(self, top_logprobs=0)
        if any(word in complaint for word in _FORMAT_WORDS):
            return self._without_format()
        if "temperature" in complaint and self.temperature:
            return replace(self, temperature=False)
        if self.several and _SEVERAL.search(complaint):
            return replace(self, several=False)
        return None

    def bounded(self) -> Capabilities:
        """The features after an answer that was cut off."""
        return replace(self, bounds="needed") if self.bounds == "unneeded" else self

    def weaker(self) -> Capabilities | None:
        """The features without the one that endpoints lack most often, for a refusal that does not say why."""
        if (formatless := self._without_format()) is not None:
            return formatless
        if self.top_logprobs:
            return replace(self, top_logprobs=0)
        return None

    def _without_limit(self) -> Capabilities | None:
        if self.limit is None:
            return None
        return replace(self, limit="max_completion_tokens" if self.limit == "max_tokens" else None)

    def _without_format(self) -> Capabilities | None:
        if self.format == "text":
            return None
        return replace(self, format="json_object" if self.format == "json_schema" else "text")


def _fewer(complaint: str, requested: int) -> int:
    """How many alternatives the complaint allows: the highest number in it below the requested one, else 5, else 0."""
    allowed = [int(number) for number in _COUNT.findall(complaint) if 0 < int(number) < requested]
    return max(allowed, default=5 if requested > 5 else 0)
