"""The places of comparisons, and the sums that are compared there."""

from typing import NamedTuple

from collector.statistics.bounded_sums import Sums


class ComparedPlace(NamedTuple):
    """The place of a comparison: an attribute of a monitor, within a value of another attribute ("" without one)."""

    monitor: str
    attribute: str
    within: str


class SumsKey(NamedTuple):
    """The evaluator of the sums. If `lost`, the sums are not of scores, but of the share of each case without one: 1 if
    the evaluation failed or was skipped, less if the judge was not shown the whole case.
    """

    evaluator: str
    version: str
    lost: bool = False


Hours = dict[int, Sums]
"""Sums over scores by the hour since the epoch."""


Versions = dict[str, dict[SumsKey, Hours]]
"""By the attribute's value."""
