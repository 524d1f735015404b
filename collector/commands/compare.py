"""`evalstream compare releases` and `gate`: versions of the application side by side, from the scores in the log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from collector.alerting.releases.comparison import BEFORE, WEEK
from collector.alerting.releases.gate import Decision, GateQuestion, decide
from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, HourlyScores
from collector.alerting.releases.releases import ALIKE, Release, ReleaseRules, releases
from collector.alerting.releases.stage import MEMORY
from collector.config.command_options import WindowOptions, require_known, require_window
from collector.config.configured import Config
from collector.errors import DONE, FAILED, ConfigError
from collector.past.evaluations import EvaluationFilter, selected_in
from collector.records.attributes import OF_EVALUATIONS, STANDARD
from collector.records.json import indented_json
from collector.service.open_logs import open_stored_logs
from collector.service.releases import WITHIN, gate_view, release_rules, release_view
from collector.telemetry.plain import plain
from collector.wording import plural

_STATUSES: dict[Decision, int] = {"promote": 0, "hold": 3, "roll back": 4}
"""The exit statuses of `gate`; 1 and 2 are the statuses of a failure."""
_STATES = {
    "worse": "worse for sure",
    "untold": "the time of day may be the whole cause",
    "better": "better",
    "alike": f"alike within {ALIKE:g}",
    "open": "not known yet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(WindowOptions):
    """The command's options: releases from `since` to `until`, of one attribute, or of two of its values."""

    monitor: str
    attribute: str | None = None
    baseline: str | None = None
    version: str | None = None


async def compare(config: Config, options: CompareOptions, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print what came out of the releases of a monitor; returns the exit status.

    Raises:
        ConfigError: there is no such monitor or attribute, or no log.
    """
    rules = _rules(config, options)
    scores = await _read(config, rules, options.since - timedelta(hours=WEEK), options.until)
    compared = releases([scores], rules, options.until.timestamp() - 1.0)
    if options.baseline is None:  # from the time before, only scores are needed
        first = options.since.timestamp() - BEFORE * HOUR
        compared = [release for release in compared if release.started >= first]
    if as_json:
        views = [asdict(release_view(release)) for release in compared]
        say(indented_json({"monitor": options.monitor, "releases": views}))
        return DONE
    for line in _lines(compared, options, rules):
        say(plain(line))
    return DONE if compared or options.baseline is None else FAILED


async def gate(
    config: Config, question: GateQuestion, now: datetime, say: Callable[[str], None], *, as_json: bool
) -> int:
    """Print the decision on a version; the exit status says it too.

    Raises:
        ConfigError: there is no such monitor or attribute, or no log.
    """
    monitors = config.settings.monitors
    require_known("--monitor", "monitor", [question.monitor], monitors)
    _require_attribute(config, question.attribute)
    values = (question.against, question.version) if question.against else ()
    attribute = ComparedAttribute(question.attribute, WITHIN.get(question.attribute), values)
    chosen = [name for name in monitors if question.monitor in (None, name)]
    rules = replace(release_rules(config), attributes=dict.fromkeys(chosen, (attribute,)))
    scores = await _read(config, rules, now - timedelta(seconds=MEMORY), now)
    answer = decide([scores], rules, question, now.timestamp())
    if as_json:
        say(indented_json(gate_view(question, answer)))
    else:
        say(plain(f"{answer.decision}: {answer.reason}"))
    return _STATUSES[answer.decision]


def _rules(config: Config, options: CompareOptions) -> ReleaseRules:
    rules, monitors = release_rules(config), config.settings.monitors
    require_known("--monitor", "monitor", [options.monitor], monitors)
    require_window(options.since, options.until)
    if (options.baseline is None) != (options.version is None):
        raise ConfigError("--baseline and --version belong together; name both, or neither")
    attributes = rules.attributes[options.monitor]
    name = options.attribute
    if options.baseline is not None and options.version is not None:
        name = name or "service_version"
        attributes = (ComparedAttribute(name, values=(options.baseline, options.version)),)
    elif name is not None:
        attributes = tuple(attribute for attribute in attributes if attribute.name == name) or (
            ComparedAttribute(name, WITHIN.get(name)),
        )
    _require_attribute(config, name)
    if not attributes:
        raise ConfigError(f"monitors.{options.monitor}.compare names no attribute; name one with --attribute")
    return replace(rules, attributes={options.monitor: attributes})


def _require_attribute(config: Config, attribute: str | None) -> None:
    known = {*STANDARD, *OF_EVALUATIONS, *config.settings.assemble.declared_attributes}
    require_known("--attribute", "attribute", [attribute], known)


async def _read(config: Config, rules: ReleaseRules, since: datetime, until: datetime) -> HourlyScores:
    """The scores of the rules' monitors in a window."""
    scores = HourlyScores(rules.attributes, (until - since).total_seconds())
    selection = EvaluationFilter(since=since, until=until, monitors=list(rules.attributes))
    async with open_stored_logs(config.settings.log) as logs:
        async for evaluation in selected_in(logs.evaluations, selection):
            if evaluation.score is not None:
                scores.add(evaluation)
    return scores


def _lines(compared: Sequence[Release], options: CompareOptions, rules: ReleaseRules) -> Iterator[str]:
    names = ", ".join(attribute.name for attribute in rules.attributes[options.monitor])
    if not compared:
        if options.baseline is not None:
            both = f"both {options.baseline} and {options.version}"
            yield f"monitor {options.monitor}: no scores of {both} in this time; name an earlier --from"
            return
        remedy = "versions that came together, or within two hours of the first score, are not new; name an"
        remedy = f"{remedy} earlier --from, or --baseline and --version"
        yield f"monitor {options.monitor}: no new version of {names} in this time; {remedy}"
        return
    above = None
    for release in compared:
        of = f" of {release.place.within}" if release.place.within else ""
        both = f"{release.version} {'beside' if release.beside else 'after'} {release.baseline}"
        since = datetime.fromtimestamp(release.started, UTC)
        heading = f"{release.place.attribute}{of}: {both}, since {since:%Y-%m-%dT%H:%MZ}"
        if heading != above:
            yield heading
            above = heading
        yield f"  {release.key.evaluator}, version {release.key.version}: {_levels(release)}"
    yield (
        f"95 % intervals hold at every look; 'worse for sure' takes more: of {int(1 / rules.error_rate + 1e-9)} "
        "releases that change nothing, at most one is ever called so"
    )


def _levels(release: Release) -> str:
    before, now = (
        "–" if mean is None else f"{mean:.3f} (effectively {plural(round(count), 'conversation')})"
        for mean, count in zip(release.means, release.conversations, strict=True)
    )
    difference = release.difference
    if difference is None:
        return f"{before}, then {now}: too few scores to compare"
    if not difference.has_interval:
        moved = f"{before}, then {now}: {difference.estimate:+z.3f} since the day before"
        if release.is_candidate:
            changed = f"{release.place.attribute} changed from {release.baseline} to {release.version}"
            return f"{moved}; first candidate: {changed} for all traffic; the time of day may be a cause, too"
        return f"{moved}, {_STATES[release.state]}"
    interval = f"{difference.estimate:+z.3f}, between {difference.low:+z.3f} and {difference.high:+z.3f}"
    return f"{before}, then {now}: {interval} ({difference.method}), {_STATES[release.state]}"
