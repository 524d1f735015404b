"""The gate of a release: promotes a version, holds it, or rolls it back, by comparison with its baseline.

- `roll back`: an evaluator is worse for sure, at the rules' error rate over all evaluators that are asked.
- `promote`: for every evaluator that scored the baseline, the 95 % interval excludes a fall by `tolerance`.
- `hold`: everything else, so that missing scores never promote. If a larger share of the version's cases than of the
  baseline's has no score (failed, skipped, or not all shown to the judge), the intervals are wider by the difference.

The intervals hold at any time, so the gate may be asked as often as a controller likes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from collector.alerting.releases.hourly_scores import HOUR, HourlyScores, merge
from collector.alerting.releases.places import ComparedPlace, Versions
from collector.alerting.releases.releases import GONE_AFTER, Release, ReleaseRules, baseline_of, compare, seen_hours
from collector.wording import percent

Decision = Literal["promote", "hold", "roll back"]
TOLERANCE = 0.05
"""The fall of a mean that must be excluded before a promotion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """A version to decide on. Without `against`, its baseline is the version with most scores in the day before it
    came, if these are enough.

    `monitor` and `within` (a service or prompt) restrict the decision to that one.
    """

    attribute: str
    version: str
    against: str | None = None
    monitor: str | None = None
    within: str | None = None
    tolerance: float = TOLERANCE


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The decision, its reason in a sentence, and the comparisons that it rests on."""

    decision: Decision
    reason: str
    compared: tuple[Release, ...] = ()


def decide(parts: Iterable[HourlyScores], rules: ReleaseRules, question: GateQuestion, now: float) -> GateAnswer:
    """The decision at `now` (s)."""
    version = question.version
    places = {place: versions for place, versions in merge(parts) if _concerns(place, question)}
    rolled = {place.within for place, versions in places.items() if version in versions}
    places = {place: versions for place, versions in places.items() if place.within in rolled}
    if not places:
        return GateAnswer("hold", f"{question.attribute} {version} has no score yet")
    last = max(seen_hours(versions[version])[1] for versions in places.values() if version in versions)
    if last <= int(now // HOUR) - GONE_AFTER:
        return GateAnswer("hold", f"{version} has had no score for a day")
    baselines = _baselines(places, question)
    number = sum(len(rules.evaluators[place.monitor]) for place in places)
    needed: list[_Needed] = []
    releases: list[Release] = []
    for place, versions in places.items():
        baseline = baselines.get(place.within)
        if baseline is None or baseline not in versions or baseline == version:
            continue
        used = rules.evaluators[place.monitor]
        scored = dict.fromkeys(key.evaluator for key in versions[baseline] if key.evaluator in used and not key.lost)
        tried = {key.evaluator for key in versions.get(version, ())}
        needed += [(place, name, baseline, name in tried) for name in scored]
        if version in versions:
            started = max(seen_hours(versions[baseline])[0], seen_hours(versions[version])[0])
            compared = compare(place, versions, (baseline, version, started), rules, number)
            releases += [release for release in compared if release.key.evaluator in used]
    return _decide(needed, releases, rules, question)


_Needed = tuple[ComparedPlace, str, str, bool]
"""An evaluator of a place that scored the baseline: place, evaluator, baseline, and whether it judged the version,
too."""


def _concerns(place: ComparedPlace, question: GateQuestion) -> bool:
    return (
        place.attribute == question.attribute
        and question.monitor in (None, place.monitor)
        and question.within in (None, place.within)
    )


def _baselines(places: Mapping[ComparedPlace, Versions], question: GateQuestion) -> dict[str, str]:
    """The version that this one is compared with, by service or prompt."""
    if question.against is not None:
        return {place.within: question.against for place in places}
    releases = {
        place.within: baseline_of(question.version, versions)
        for place, versions in places.items()
        if question.version in versions
    }
    return {within: baseline for within, baseline in releases.items() if baseline is not None}


def _decide(needed: list[_Needed], releases: list[Release], rules: ReleaseRules, question: GateQuestion) -> GateAnswer:
    compared = tuple(releases)
    if worse := [release for release in releases if release.is_worse]:
        release = max(worse, key=lambda release: abs(release.difference.estimate) if release.difference else 0.0)
        return GateAnswer("roll back", f"{_name(release)} is worse for sure: {_figures(release)}", compared)
    if not needed:
        before = f"{question.against} has no scores" if question.against else "no version before it has enough scores"
        soon = "" if question.against else ", or it came within two hours of the first score; name a baseline (against)"
        return GateAnswer("hold", f"{before} to compare {question.version} with{soon}", compared)
    decisive: list[tuple[float, Release]] = []
    for place, evaluator, baseline, is_tried in needed:
        own = [release for release in releases if (release.place, release.key.evaluator) == (place, evaluator)]
        if not own:
            failing = ": every evaluation of it failed or was skipped" if is_tried else ""
            reason = f"{evaluator} of {place.monitor} has scored {baseline}, but not {question.version}"
            return GateAnswer("hold", reason + failing, compared)
        release = max(own, key=lambda release: min(release.conversations))  # two if the judge changed
        worst = _least_improvement(release, rules)
        if worst is None or worst <= -question.tolerance:
            return GateAnswer("hold", _open_reason(release, question.tolerance), compared)
        decisive.append((worst, release))
    nearest = min(decisive, key=lambda pair: pair[0])[1]
    reason = (
        f"no evaluator is worse by {question.tolerance:g}; nearest to that is {_name(nearest)}: {_figures(nearest)}"
    )
    return GateAnswer("promote", reason, compared)


def _least_improvement(release: Release, rules: ReleaseRules) -> float | None:
    """The lower end of the interval of a release's improvement; None without an interval."""
    difference = release.difference
    if difference is None or not difference.has_interval:
        return None
    low = -difference.high if release.lower_is_better else difference.low
    return low - (rules.drift if difference.method == "week before" else 0.0)


def _open_reason(release: Release, tolerance: float) -> str:
    if release.difference is None:
        return f"{_name(release)} has too few scores yet: {_conversation_counts(release)}; it takes 20 of each"
    if not release.difference.has_interval:
        ran = f"{release.baseline} ran neither beside {release.version} nor at the same hours a week before"
        return f"{_name(release)} cannot be compared: {ran}"
    return f"{_name(release)} may still be worse by {tolerance:g}: {_figures(release)}"


def _name(release: Release) -> str:
    where = f" ({release.place.within})" if release.place.within else ""
    return f"{release.key.evaluator} of {release.place.monitor}{where}"


def _figures(release: Release) -> str:
    difference = release.difference
    if difference is None:
        return _conversation_counts(release)
    interval = f"{difference.estimate:+z.3f}, between {difference.low:+z.3f} and {difference.high:+z.3f}"
    return f"{interval}, {difference.method}, {_conversation_counts(release)}{_unscored(release)}"


def _conversation_counts(release: Release) -> str:
    old, new = (f"{count:,.0f}" for count in release.conversations)
    return f"{old} effective conversations of {release.baseline} and {new} of {release.version}"


def _unscored(release: Release) -> str:
    """The shares without a score, if they widen the interval."""
    old, new = release.lost
    if new <= old:
        return ""
    those = f"{percent(old, 1)} of those of {release.baseline}"
    return f"; {percent(new, 1)} of the cases of {release.version} have no score, and {those}"
