"""Capabilities of an endpoint, learnt from its refusals: OpenAI-compatible servers differ, and do not say how."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from evaluators.judges.endpoint_meanings import BOUNDS, FEATURES

_COUNT = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that may be put into a request. Starts with everything; each refusal takes one thing away.

    `top_logprobs` is how many alternatives per token, 0 for no token probabilities. `limit` is the name under which the
    endpoint takes the length limit of the answer, None if it takes none.
    """

    format: Literal["json_schema", "json_object", "text"] = "json_schema"
    top_logprobs: int = 20
    limit: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"
    temperature: bool = True
    multiple_choices: bool = True
    """Whether one request may ask for several answers."""
    system: bool = True
    """Whether instructions may be a system message; else they begin the user's first message."""
    bounds: Literal["unneeded", "needed", "refused"] = "unneeded"
    """Whether schemas bound the length of texts and lists: needed once an answer was cut off."""
    optional: tuple[str, ...] = ()
    """Names of the optional parameters that the endpoint takes."""

    def without(self, complaint: str) -> Capabilities | None:
        """The features without the feature that a refusal names; None if it names no remaining feature."""
        complaint = complaint.lower()
        for name in self.optional:
            if name in complaint:
                return replace(self, optional=tuple(each for each in self.optional if each != name))
        if self.bounds == "needed" and BOUNDS.search(complaint):
            return replace(self, bounds="refused")
        feature = next((feature for feature, words in FEATURES if words.search(complaint)), None)
        match feature:
            case "limit" if self.limit is not None:
                return replace(self, limit="max_completion_tokens" if self.limit == "max_tokens" else None)
            case "top_logprobs" if self.top_logprobs:
                return replace(self, top_logprobs=_fewer(complaint, self.top_logprobs))
            case "logprobs" if self.top_logprobs:
                return replace(self, top_logprobs=0)
            case "format":
                return self._without_format()
            case "system" | "temperature" | "multiple_choices" if getattr(self, feature):
                return replace(self, **{feature: False})
            case _:
                pass
        return None

    def bounded(self) -> Capabilities:
        """The features to use after an answer was cut off."""
        return replace(self, bounds="needed") if self.bounds == "unneeded" else self

    def weaker(self, first: Capabilities) -> Capabilities | None:
        """The features without the most often missing one, for a refusal that does not say why.

        Forms of answers are taken away first, then token probabilities. With these the form of `first` returns, as the
        probabilities alone may have been the cause.
        """
        if (formatless := self._without_format()) is not None:
            return formatless
        return replace(self, format=first.format, top_logprobs=0) if self.top_logprobs else None

    def _without_format(self) -> Capabilities | None:
        if self.format == "text":
            return None
        return replace(self, format="json_object" if self.format == "json_schema" else "text")


FEATURE_NAMES = tuple(each.name for each in fields(Capabilities))
"""The names of all features."""


def _fewer(complaint: str, requested: int) -> int:
    """The number of alternatives that a complaint allows: the highest in it below the requested one, else 5, else 0."""
    allowed = [int(number) for number in _COUNT.findall(complaint) if 0 < int(number) < requested]
    return max(allowed, default=5 if requested > 5 else 0)


_UNUSUAL = 3
"""How many failures or comparisons in a row count as evidence, if a single one may be an accident."""
_FIRST_RECHECK = 600.0
"""Seconds after which a lost ability is tried again; each further wait is twice as long."""
_LONGEST_RECHECK = 86400.0
"""The longest such wait, in seconds."""


@dataclass(slots=True)
class QuestionAttempt:
    """One question, asked with ever fewer features until it is answered. `used` are the names of its features.

    `certain` says that each refusal was about the endpoint, not about the one question.
    """

    first: Capabilities
    features: Capabilities
    used: frozenset[str]
    certain: bool = True


class LearntCapabilities:
    """The capabilities of an endpoint, learnt by comparing: a question is refused with a feature, and answered without.

    One comparison is enough for a feature that the endpoint has never taken; a feature that it once took needs several
    in a row. Later one question tries whether the feature has come back.
    """

    def __init__(self, hoped_for: Capabilities, clock: Callable[[], float] = time.monotonic) -> None:
        self.current = self._hoped_for = hoped_for
        self._clock = clock
        self._proven: set[tuple[str, object]] = set()
        self._against: dict[tuple[str, object], int] = {}
        self._faults = 0
        self._learnt_of: tuple[Capabilities, frozenset[str]] | None = None  # the last answer, if it is no comparison
        self._rechecked_at = 0.0
        self._recheck = _FIRST_RECHECK

    def begin(self, used: Callable[[Capabilities], frozenset[str]]) -> QuestionAttempt:
        """Begin a question."""
        features, now = self.current, self._clock()
        if features is not self._hoped_for and now - self._rechecked_at >= self._recheck:
            hoped_for = replace(self._hoped_for, bounds=features.bounds)
            if features != hoped_for:
                self._rechecked_at, self._recheck = now, min(2 * self._recheck, _LONGEST_RECHECK)
                features = hoped_for
        return QuestionAttempt(features, features, used(features))

    def refused(self, attempt: QuestionAttempt, complaint: str, *, named: bool = True) -> bool:
        """Take a feature away from a question after a refusal; says whether it makes sense to ask it again.

        With `named` only a feature in the complaint is taken: the refusal concerns this one question. A complaint that
        names none may have any reason. Only before the first answer is it taken for a lack of features.
        """
        left = attempt.features.without(complaint)
        if left is None and not named and not self._proven:
            left = attempt.features.weaker(attempt.first)
        attempt.certain &= not named
        return self._go_on(attempt, left)

    def failed(self, attempt: QuestionAttempt) -> bool:
        """Take a feature away after a fault of the endpoint (500): after several in a row, a feature that it has never
        taken.

        Servers whose template has no system role say so only in their own log.
        """
        self._faults += 1
        if self._faults < _UNUSUAL:
            return False
        features = attempt.features
        untaken = {name for name in attempt.used if (name, getattr(features, name)) not in self._proven}
        if "top_logprobs" in untaken and features.top_logprobs:
            return self._go_on(attempt, replace(features, top_logprobs=0))
        left = features.without("response_format") if "format" in untaken else None
        if left is None and "system" in untaken and features.system:
            left = replace(attempt.first, system=False)
        return self._go_on(attempt, left)

    def _go_on(self, attempt: QuestionAttempt, left: Capabilities | None) -> bool:
        if left is None:
            return False
        attempt.features = left
        return True

    def answered(self, attempt: QuestionAttempt) -> None:
        """A question was answered: learn from the comparison, if it is one."""
        self._faults = 0
        known, self._learnt_of = self._learnt_of, None
        if attempt.features is attempt.first is self.current:
            self._learnt_of = attempt.features, attempt.used
            if known is not None and known[0] is attempt.features and known[1] == attempt.used:
                return
        lacking = {
            name: getattr(attempt.features, name)
            for name in (FEATURE_NAMES if attempt.features is not attempt.first else ())
            if getattr(attempt.features, name) != getattr(attempt.first, name)
        }
        for name in attempt.used - lacking.keys():
            value = getattr(attempt.features, name)
            self._proven.add((name, value))
            self._against.pop((name, value), None)
            if value != getattr(self.current, name):
                self.current = replace(self.current, **{name: value})
        for name, value in lacking.items() if attempt.certain else ():
            lost = name, getattr(attempt.first, name)
            self._against[lost] = self._against.get(lost, 0) + 1
            if lost not in self._proven or self._against[lost] >= _UNUSUAL:
                self._proven.discard(lost)
                self.current = replace(self.current, **{name: value})
                self._rechecked_at = self._clock()
