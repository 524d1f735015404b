"""Rules on scores: means with their standard errors, and the alerts on their targets."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from collector.alerting.rules import series
from collector.alerting.rules.agreement import by_proof, uncalibrated_alert
from collector.alerting.rules.audits import CorrectedMeans, clipped_rules, corrected_means, part_rules
from collector.alerting.rules.model import AlertingRule, Fact, Listing, RecordingRule, RuleGroup, Timing
from collector.alerting.rules.people import people_rules
from collector.alerting.rules.promql import duration, growth, selector
from collector.alerting.rules.targets import Target
from collector.config.alerts import AlertSettings
from collector.statistics.audited_sums import PEOPLE_WINDOW
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.intervals import PRIOR, UNSEEN, Z
from collector.telemetry import series as metrics

COUNTERS = {key: counter.name for key, counter in zip(series.SUMS, metrics.ESTIMATOR_SUMS, strict=True)}
BURN, DOMINATED = "EvalstreamPassBudgetBurn", "EvalstreamMeanDominated"
_FEW, _MANY_SCORES = 5, 100
"""Effective conversations that are too few for so many scores: one of them has at least a fifth of the weight."""
_EFFECTIVE = Listing(
    label="window", form='printf "%.2g"', order=tuple(series.WINDOWS), intro="Effective conversations: ",
    otherwise="No window is from fewer than 5 effective conversations",
    elsewhere="`evalstream:score_n_eff` has their effective numbers",
)  # fmt: skip
_SOON = 300.0
"""Seconds within which Prometheus scrapes a process that has begun."""
_MUCH_CLIPPED = 0.1
"""Share of the weight that may be left out of a mean."""


def score_groups(
    targets: Sequence[Target], alerts: AlertSettings, timing: Timing, by: Sequence[str], *, cascades: bool, people: bool
) -> Iterator[RuleGroup]:
    """Means and pass shares of every window, and the alerts on them.

    Corrected means where there are `cascades`, and means by people where `people` label.
    """
    burns = [burn for target in targets if target.objective is not None for burn in target.burns]
    windows = series.WINDOWS | {duration(length): length for burn in burns for length in (burn.long, burn.short)}
    audited = any(target.audited for target in targets)
    unused = (*(() if cascades else metrics.CORRECTED_SUMS), *(() if audited else (metrics.AUDITED_SUMS,)))
    lengths = [*windows.values(), *([PEOPLE_WINDOW] if people else ())]
    rules = (
        *_fresh_processes(dict.fromkeys(lengths), timing),
        *_early_scores(max(lengths), timing, unused),
        *_increases(_COUNTERS_BY_RECORD, timing, by),
        *(audits := tuple(_audits(targets, timing, by, people=people))),
        *_means(by, corrected_means(timing) if audits else None),
        *(_corrected_means(timing, by) if cascades else ()),
        *_margins(),
        *_pass_shares(windows, timing, by),
        *(rule for target in targets for rule in _target_rules(target, alerts, by, timing)),
        _dominated(timing, by),
    )
    yield RuleGroup("evalstream-scores", timing.seconds(60.0), rules)


def _fresh_processes(lengths: Iterable[float], timing: Timing) -> Iterator[RecordingRule]:
    """The processes whose new counters have begun at 0 in a window.

    Either the process was scraped when the window began, or it began within the window and was scraped soon. It is not
    enough that it began within the window: one whose address or other label was changed meanwhile would count twice.
    """
    start = metrics.START.name
    yield RecordingRule(series.PROCESS_AGE, f"time() - {start}")
    for length in lengths:
        window = timing.text(length)
        was_there = f"{start} == {start} offset {window}"
        soon = f"min_over_time({series.PROCESS_AGE}[{window}]) < {timing.seconds(_SOON):g}"
        began = f"{start} > time() - {timing.seconds(length):g} and {soon}"
        fresh = f"max by ({series.PROCESS}) ({was_there} or {began})"
        yield RecordingRule(series.PROCESS_FRESH, fresh, {"window": window})


def _early_scores(longest: float, timing: Timing, unused: Collection[metrics.Series]) -> Iterator[RecordingRule]:
    """The values of counters at their first scrape, for a day or as long as the longest window.

    All counters of an evaluator begin together, so the count of its scores says for all of them whether they are new.
    """
    window, soon, scores = timing.text(longest), timing.text(_SOON), f"{metrics.SCORE.name}_count"
    fresh = f"on ({series.PROCESS}) {series.PROCESS_FRESH}{selector(window=timing.text(min(series.WINDOWS.values())))}"
    unseen = f"{scores} unless present_over_time({scores}[{window}] offset {soon})"
    yield RecordingRule(series.NEW_SCORES, f"{unseen} and {fresh}")
    new = f"on ({series.PROCESS}, {', '.join(series.BY)}, segment) {series.NEW_SCORES}"
    for counter in sorted(series.EARLY.keys() - {each.name for each in unused}):
        name = series.EARLY[counter]
        early = f"min_over_time({counter}[{soon}]) > 0 unless resets({counter}[{soon}]) > 0 and {new}"
        before = f"last_over_time({name}[{series.GAP}]) unless last_over_time({name}[{series.GAP}] offset {window})"
        yield RecordingRule(name, f"{before} or ignoring (early) ({early})", {"early": "yes"})


_COUNTERS_BY_RECORD = {
    **{series.ESTIMATOR_INCREASES[key]: counter for key, counter in COUNTERS.items()},
    series.ESTIMATOR_CLIPPED_INCREASE: metrics.ESTIMATOR_CLIPPED.name,
    series.SCORES_INCREASE: f"{metrics.SCORE.name}_count",
}


def _increases(counters: Mapping[str, str], timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The growth of counters in every window, by the names of their records."""
    for window, length in series.WINDOWS.items():
        for name, counter in counters.items():
            yield RecordingRule(name, growth(counter, timing.text(length), by), {"window": window})


def _margins() -> Iterator[RecordingRule]:
    """The numbers behind "±": how far the farther end of the 95 % interval is from the mean.

    It is Wilson's (1927), as PromQL has no beta distribution, at the trials of `collector.statistics.intervals`.
    """
    mean, number, trials = series.SCORE_MEAN, series.SCORE_N_EFF, series.SCORE_TRIALS
    largest = f"clamp_min({mean} * (1 - {mean}), {VARIANCE_FLOOR:.4f})"
    share = f"({number} ^ 2 * {series.SCORE_STDERR} ^ 2 / {largest} + {PRIOR:g})"
    yield RecordingRule(trials, f"{number} * ({number} + {PRIOR:g}) / {share}")
    half = f"{Z:.3f} * sqrt({largest} / {trials} + {Z**2 / 4:.3f} / {trials} ^ 2)"
    off_centre = f"abs({mean} - 0.5) * {Z**2:.3f} / {trials}"
    yield RecordingRule(series.SCORE_MARGIN, f"({half} + {off_centre}) / (1 + {Z**2:.3f} / {trials})")


def _means(by: Sequence[str], corrected: CorrectedMeans | None) -> Iterator[RecordingRule]:
    """Means and their standard errors, as in collector.statistics.mean_error; and those that audits and people correct.

    Both are one record for each name: they differ in the evaluator's name.
    """
    sums = series.ESTIMATOR_INCREASES
    mean = series.SCORE_MEAN
    yield RecordingRule(mean, _or(f"{sums['wy']} / ({sums['w']} > 0)", corrected and corrected.mean))  # no scores: none
    variance = f"{sums['w2y2']} - 2 * {mean} * {sums['w2y']} + {mean} ^ 2 * {sums['w2']}"
    squares, scores, day = series.SCORE_SQUARES, series.SCORES_INCREASE, selector(window="24h")
    yield RecordingRule(squares, f"clamp_min({variance}, 0) + {VARIANCE_FLOOR:.4f} * {sums['w2']}")
    expected = f"{scores} * on ({', '.join(by)}) group_left () ({squares}{day} / ({scores}{day} > 0))"
    error = f"sqrt(({squares} > {expected}) or {expected} or {squares}) / ({sums['w']} > 0)"
    yield RecordingRule(series.SCORE_STDERR, _or(error, corrected and corrected.error))
    hour, here = f"{mean}{selector(window='1h')}", "on (evaluator, monitor) group_left ()"
    lost = corrected and corrected.lost
    lowest, highest = f"{hour} * {here} (1 - {series.UNCOVERED_SHARE})", f"{series.SCORE_LOWEST} + {here} "
    yield RecordingRule(series.SCORE_LOWEST, _or(lowest, lost and f"{mean}{day} * {here} (1 - {lost})"))
    yield RecordingRule(series.SCORE_HIGHEST, _or(highest + series.UNCOVERED_SHARE, lost and highest + lost))
    clipped = series.ESTIMATOR_CLIPPED_INCREASE
    yield RecordingRule(series.SCORE_CLIPPED, f"{clipped} / ({sums['w']} + {clipped} > 0)")
    number = f"{sums['w']} ^ 2 / ({sums['w2']} > 0)"
    yield RecordingRule(series.SCORE_N_EFF, _or(number, corrected and corrected.effective_number))


def _or(plain: str, corrected: str | None) -> str:
    return plain if corrected is None else f"{plain} or {corrected}"


def _corrected_means(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The means of cascades, corrected by what their second judges say, as in collector.export.prometheus."""
    sums, of = series.CORRECTED_INCREASES, series.ESTIMATOR_INCREASES
    counters = zip(series.CORRECTED, metrics.CORRECTED_SUMS, strict=True)
    yield from _increases({sums[key]: counter.name for key, counter in counters}, timing, by)
    shifted = f"{sums['wy']} / ({of['w']} > 0)"
    shift = f"max by ({', '.join(series.BY)}) ({metrics.CORRECTED_SHIFT.name})"
    yield RecordingRule(series.CORRECTED_MEAN, f"{shifted} - on ({', '.join(series.BY)}) group_left () {shift}")
    squares = f"{sums['w2y2']} - 2 * ({shifted}) * {sums['w2y']} + ({shifted}) ^ 2 * {of['w2']}"
    error = f"(sqrt(clamp_min({squares}, 0)) / ({of['w']} > 0))"
    # what a drawn case weighs, as often as a disagreement may have been missed
    unseen = f"({UNSEEN**0.5:.4f} / {series.SCORE_N_EFF} * on ({', '.join(series.BY)}) group_left () ({shift} + 1))"
    yield RecordingRule(series.CORRECTED_STDERR, f"{error} > {unseen} or {unseen} and {error} or {error}")


def _audits(targets: Sequence[Target], timing: Timing, by: Sequence[str], *, people: bool) -> Iterator[RecordingRule]:
    """The sums and parts of means that audits and people correct. People correct the mean by audits of a minute ago."""
    audited = any(target.audited for target in targets)
    people = people and bool(targets)
    if audited:
        yield from _increases({series.AUDITED_INCREASE: metrics.AUDITED_SUMS.name}, timing, (*by, "sum"))
    if people:
        yield from people_rules(targets, timing, by)
    if audited:
        yield from clipped_rules(series.WINDOWS | ({series.WEEK: PEOPLE_WINDOW} if people else {}), timing, by)
    if audited or people:
        yield from part_rules()


def _pass_shares(windows: Mapping[str, float], timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    for window, length in windows.items():
        weight, text = metrics.VERDICT_WEIGHT.name, timing.text(length)
        passing, every = (growth(f"{weight}{where}", text, by) for where in (selector(verdict="pass"), ""))
        yield RecordingRule(series.PASS_SHARE, f"{passing} / ({every} > 0)", {"window": window})


def _dominated(timing: Timing, by: Sequence[str]) -> AlertingRule:
    """Very few conversations decide a mean, by their length or by the weights that their sender claims."""
    few = f"{series.SCORE_N_EFF} < {_FEW} and {series.SCORES_INCREASE} >= {_MANY_SCORES}"
    return AlertingRule(
        name=DOMINATED, board="trust", hold=timing.seconds(300.0),
        expr=f'count by ({", ".join(by)}) (({few}) or {series.SCORE_CLIPPED}{{window="6h"}} > {_MUCH_CLIPPED:g})',
        summary="{label:evaluator} of {label:monitor}: very few conversations decide the mean",
        description=(
            "Very few conversations decide the mean of {label:evaluator} ({label:monitor}). {windows}. "
            "The mean of 6h leaves out a share of {clipped} of the weight, so that none outweighs the others. "
            "A conversation is very long, a budget lowered the rate, or a trusted tracestate claims a very low rate."
        ),
        facts={
            "windows": Fact(series.SCORE_N_EFF, tuple(by), only=f"< {_FEW}", listed=_EFFECTIVE),
            "clipped": Fact(series.SCORE_CLIPPED, tuple(by), {"window": "6h"}),
        },
    )  # fmt: skip


def _target_rules(
    target: Target, alerts: AlertSettings, by: Sequence[str], timing: Timing
) -> Iterator[RecordingRule | AlertingRule]:
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    if target.mean is not None:
        yield RecordingRule(series.SCORE_TARGET, f"vector({target.mean:g})", where)
        yield from uncalibrated_alert(target, timing)
    if target.objective is not None:
        yield RecordingRule(series.PASS_OBJECTIVE, f"vector({target.objective:g})", where)
        yield from by_proof(target, [_burn(target, target.objective, alerts.min_conversations, by, timing)])


def _burn(target: Target, objective: float, fewest: float, by: Sequence[str], timing: Timing) -> AlertingRule:
    """The error budget is used up too fast, over a long and a short window: one alert for all pairs.

    A fall that alerts by itself has an alert already.
    """
    chosen = {"evaluator": target.evaluator, "monitor": target.monitor}
    grouped = ", ".join(by)

    def failing(seconds: float, factor: float) -> str:
        share = f"(1 - {series.PASS_SHARE}{selector(**chosen, window=duration(seconds))})"
        return f"{share} > {factor * (1.0 - objective):.6g}"

    def count(seconds: float) -> str:
        return f"sum by ({grouped}) (increase({metrics.VERDICTS.name}{selector(**chosen)}[{timing.text(seconds)}]))"

    pairs = " or ".join(
        f"({failing(burn.long, burn.factor)} and on ({grouped}) {failing(burn.short, burn.factor)}"
        f" and on ({grouped}) {count(burn.long)} >= {fewest:g})"
        for burn in target.burns
    )
    limits = " or ".join(f"{burn.factor:g} times as much over {duration(burn.long)}" for burn in target.burns)
    return AlertingRule(
        name=BURN,
        expr=f"max by ({grouped}) ({pairs}) unless on ({grouped}) {series.SCORE_FALL}{selector(**chosen)}",
        board="quality",
        labels=chosen,
        summary="{label:evaluator} of {label:monitor}: too many scores do not pass",
        description=(
            "A share of {value} of the scores of {label:evaluator} ({label:monitor}) failed; over 24h the mean score "
            f"is {{mean}} (95 %: ± {{error}}). The objective allows {1.0 - objective:.3g}; the alert is on {limits}."
        ),
        facts={
            "mean": Fact(series.SCORE_MEAN, tuple(by), {"window": "24h"}),
            "error": Fact(series.SCORE_MARGIN, tuple(by), {"window": "24h"}),
        },
    )
