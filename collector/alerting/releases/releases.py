"""Pairs of versions to compare, and the results of the comparisons.

A version that comes at least an hour after the first ones is a release. It is compared with the version that had most
scores in the day before, until it is a week old or has not been seen for a day. At each place, the newest five releases
are compared. Versions that the configuration names are compared with the first of them as soon as both have scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.alerting.releases.comparison import BEFORE, INTERVAL_ERROR, WEEK, Difference, Pair
from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, HourlyScores, merge, total
from collector.alerting.releases.places import ComparedPlace, Hours, SumsKey, Versions
from collector.statistics.bounded_sums import Sums

FEWEST = 5
"""The fewest conversations of a version."""
NEWEST = 5
"""The most releases of a place that are compared at a time."""
COMPARED_HOURS = 7 * 24
"""Hours for which a release is compared."""
GONE_AFTER = 24
"""Hours without a score after which a version is gone."""
_BEYOND_CHANCE = 4.0
"""A mean that is worse by more standard errors is worse beyond chance."""
ALIKE = 0.05
"""Means whose difference is surely less are alike."""
_SETTLING = 1
"""Hours after the first scores in which a new version is no release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """The comparisons to make, and when a release counts as worse.

    `error_rate` is the share of releases without a change that are ever called worse, over all evaluators of a monitor.
    `drift` is how much a mean may change with time alone. For the evaluators in `lower`, lower is better.
    """

    attributes: Mapping[str, Sequence[ComparedAttribute]]
    evaluators: Mapping[str, Sequence[str]]
    lower: frozenset[str] = frozenset()
    error_rate: float = 0.01
    drift: float = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version compared with another by one evaluator. `started` in seconds since the epoch.

    `difference` is None while there are too few scores. `is_worse` holds at the rules' error rate. `margin` is
    how much time alone may have changed the mean. `means` and `conversations` (effective numbers) are of the old and of
    the new version.
    """

    place: ComparedPlace
    baseline: str
    version: str
    key: SumsKey
    started: float
    difference: Difference | None
    is_worse: bool
    margin: float
    lower_is_better: bool
    means: tuple[float | None, float | None]
    conversations: tuple[float, float]
    lost: tuple[float, float] = (0.0, 0.0)
    """The shares of cases without a score, of the old and of the new version."""
    beside: bool = False
    """Whether the two are values that the configuration names: neither came after the other."""

    @property
    def is_candidate(self) -> bool:
        """Whether it took over at once when the mean got worse beyond chance. Then it is the first candidate, not
        more.
        """
        errors = self.difference.errors if self.difference is not None else 0.0
        return (errors if self.lower_is_better else -errors) > _BEYOND_CHANCE

    @property
    def state(self) -> str:
        """The verdict: worse, better, alike (the difference is small), open, untold (not told from time), or
        waiting.
        """
        if self.difference is None:
            return "waiting"
        if self.is_worse:
            return "worse"
        low, high = self.difference.low, self.difference.high
        if self.lower_is_better:
            low, high = -high, -low
        if not self.difference.has_interval:
            return "untold"
        if low > self.margin:
            return "better"
        return "alike" if low > -ALIKE and high < ALIKE else "open"


def releases(parts: Iterable[HourlyScores], rules: ReleaseRules, now: float) -> list[Release]:
    """The comparisons that run at `now` (s), the newest first."""
    comparisons: list[Release] = []
    hour = int(now // HOUR)
    for place, versions in merge(parts):
        (attribute,) = (compared for compared in rules.attributes[place.monitor] if compared.name == place.attribute)
        for baseline, version, started in _pairs_to_compare(attribute, versions, hour):
            numbers = len(rules.evaluators[place.monitor])
            comparisons += compare(place, versions, (baseline, version, started), rules, numbers)
    return sorted(comparisons, key=lambda each: (-each.started, each.place, each.version, each.key))


def _pairs_to_compare(attribute: ComparedAttribute, versions: Versions, now: int) -> Iterator[tuple[str, str, int]]:
    """Baseline, version and the hour since which they are compared."""
    seen = {each: seen_hours(by_key) for each, by_key in versions.items()}
    if attribute.values:
        first = attribute.values[0]
        for value in attribute.values[1:]:
            if first in seen and value in seen and _is_fresh(seen[value], now):
                yield first, value, max(seen[first][0], seen[value][0])
        return
    begin = min(first for first, _ in seen.values())
    new = [each for each, span in seen.items() if span[0] > begin + _SETTLING and _is_fresh(span, now)]
    new = [each for each in new if _effective_number(versions[each]) >= FEWEST]
    for each in sorted(new, key=lambda name: -seen[name][0])[:NEWEST]:
        if (baseline := baseline_of(each, versions)) is not None:
            yield baseline, each, seen[each][0]


def baseline_of(version: str, versions: Versions) -> str | None:
    """The version with most scores in the day before this one came; None if these are of fewer than 5 conversations."""
    seen = {name: seen_hours(by_key) for name, by_key in versions.items()}
    started = seen[version][0]
    before = {
        other: _effective_number(versions[other], range(started - BEFORE, started))
        for other, span in seen.items()
        if span[0] < started
    }
    baseline = max(before, key=lambda name: before[name], default=None)
    return baseline if baseline is not None and before[baseline] >= FEWEST else None


def _is_fresh(span: tuple[int, int], now: int) -> bool:
    return span[1] > now - GONE_AFTER and span[0] > now - COMPARED_HOURS


def seen_hours(by_key: Mapping[SumsKey, Hours]) -> tuple[int, int]:
    """The first and the last hour of a version."""
    hours = [hour for hours in by_key.values() for hour in hours]
    return min(hours), max(hours)


def _effective_number(by_key: Mapping[SumsKey, Hours], within: range | None = None) -> float:
    """The effective number of conversations, of the evaluator with most."""
    scored = [hours for key, hours in by_key.items() if not key.lost]
    chosen = ([sums for hour, sums in hours.items() if within is None or hour in within] for hours in scored)
    return max((total(each).n_eff for each in chosen), default=0.0)


def compare(
    place: ComparedPlace, versions: Versions, chosen: tuple[str, str, int], rules: ReleaseRules, number: int
) -> Iterator[Release]:
    """The comparison of a version with its baseline since an hour, by each evaluator. `number` of them share the error
    rate.
    """
    baseline, version, started = chosen
    for key, new in versions[version].items():
        if key.lost:
            continue
        known = versions[baseline].get(key, {})
        lost = _lost_share(versions[baseline], key, started), _lost_share(versions[version], key, started)
        old = {hour: sums for hour, sums in known.items() if hour >= started - WEEK}
        pair = Pair(old, new, started, max(0.0, lost[1] - lost[0]))
        difference, lower = pair.difference(INTERVAL_ERROR), key.evaluator in rules.lower
        is_weekly = difference is not None and difference.method == "week before"
        margin = rules.drift if is_weekly else 0.0
        old = pair.week_before if is_weekly else {hour: pair.old[hour] for hour in pair.old if hour >= started - BEFORE}
        yield Release(
            place=place, baseline=baseline, version=version, key=key, started=started * HOUR, difference=difference,
            is_worse=_is_worse(pair, rules.error_rate / number, margin, lower_is_better=lower),
            margin=margin, lower_is_better=lower,
            means=(_mean(old), _mean(new)), lost=lost,
            conversations=(total(old.values()).n_eff, total(new.values()).n_eff),
            beside=any(each.values for each in rules.attributes[place.monitor] if each.name == place.attribute),
        )  # fmt: skip


def _lost_share(by_key: Mapping[SumsKey, Hours], key: SumsKey, started: int) -> float:
    """The share of a version's cases without a score, from `started` on, or before it."""
    hours = by_key.get(key._replace(lost=True), {})
    whole = total([sums for hour, sums in hours.items() if hour >= started] or hours.values())
    return min(1.0, max(0.0, whole.mean)) if whole.w > 0 else 0.0


def _mean(hours: Mapping[int, Sums]) -> float | None:
    whole = total(hours.values())
    return whole.mean if whole.w else None


def _is_worse(pair: Pair, error_rate: float, margin: float, *, lower_is_better: bool) -> bool:
    # One end of an interval with error rate 2 a is wrong in a share a of cases; each of the two methods gets half of
    # it.
    difference = pair.difference(error_rate)
    if difference is None or not difference.has_interval:
        return False
    return difference.low > margin if lower_is_better else difference.high < -margin
