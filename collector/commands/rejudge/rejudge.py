"""`evalstream rejudge`: what a stretch of the past lacks, requested of the service, within a limit of US dollars."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from collector.commands.rejudge.candidates import Candidates, KnownEvaluations, LeftOut, Reason, What
from collector.commands.rejudge.current_step import report_steps
from collector.commands.rejudge.request_window import Progress, RequestWindow
from collector.commands.score.runner import require_prices
from collector.config.command_options import require_known, require_window
from collector.config.configured import Config, judges_of
from collector.errors import DONE, FAILED, ConfigError
from collector.evaluate.failures import FAILURE_TYPES
from collector.evaluate.recovery.replay_point import metadata_of
from collector.evaluate.retry.past_jobs import Stretch, control_records_in, plan_of
from collector.evaluate.retry.request import requested_evaluations
from collector.evaluate.stage import GROUP
from collector.judging.batches import at_batch_prices
from collector.past.evaluations import EvaluationFilter, needs_retry
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import build_unasked_plan, evaluator_versions, expected_usd, known_usd, usd_again
from collector.wording import listed, plural, usd
from evaluators.results import NEVER_TRIED, Evaluation

PATIENCE = 120.0
"""Seconds without any evaluation after which the command no longer waits for the service."""
_ANSWER = 10.0
"""Seconds within which the service may say its versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejudgeOptions:
    """The command's options: `what` is missing of subjects that ended in a stretch, of these evaluators (none: all).

    With `reasons`, only failures and skips for these. `max_usd` is the limit of what all backfills of the stretch by
    these monitors and evaluators cost, earlier runs and versions included.
    """

    stretch: Stretch
    what: What = "unscored"
    reasons: Collection[str] = ()
    monitors: Collection[str] = ()
    evaluators: Collection[str] = ()
    max_usd: float | None = None
    dry_run: bool = False
    patience: float = PATIENCE


Versions = Mapping[tuple[str, str], str]
"""Versions by monitor and evaluator."""


async def rejudge(
    config: Config, options: RejudgeOptions, say: Callable[[str], None], difference: Callable[[Config, Versions], str]
) -> int:
    """Request what is missing, and follow it; the exit status: 1 if not all of it was made, or all failed.

    `difference` says why the running service would judge by other versions.

    Raises:
        ConfigError: the configuration stores nothing that could be judged, or has not what is named, or no limit; or
            the running service has another.
    """
    require_window(options.stretch.since, options.stretch.until)
    versions = _versions(config, options)
    names = {name for _, name in versions}
    async with open_stored_logs(config.settings.log) as logs, report_steps(say) as step:
        step.begin("reading the logs")
        history = ConfigurationHistory(await logs.generated_steps(), config)
        await history.refresh()
        committed = {each: (metadata_of(of), of.offset) for each, of in (await logs.turns.committed(GROUP)).items()}
        requested = await requested_evaluations(logs.turns, {at: of.done_below for at, (of, _) in committed.items()})
        since, until = options.stretch.since, options.stretch.until
        selected = EvaluationFilter(since=since, until=until, monitors=options.monitors, evaluators=options.evaluators)
        known = KnownEvaluations(versions, selected, _usd_now(config))
        await known.read(logs.evaluations)
        wrong = {*options.reasons} - FAILURE_TYPES - NEVER_TRIED - known.failures
        require_known("--reason", "reason", sorted(wrong), known.failures or FAILURE_TYPES)
        candidates = Candidates(
            turns=logs.turns, known=known, history=history, committed=committed,
            plan=plan_of(build_unasked_plan(config, history.key), options.monitors, options.evaluators),
            controls={each: await control_records_in(logs.evaluations, each) for each in range(logs.turns.partitions)},
            stretch=options.stretch, what=options.what, reasons=options.reasons, requested=requested,
        )  # fmt: skip
        await candidates.prepare()
        expected = {name: known.mean_usd.get(name) or expected_usd(config, name) for name in names}
        missing = candidates.all(count_sampled_out=True)
        due = [(one.monitor, one.request.evaluator, one.pays) async for one in missing]
        step.begin("")
        counts, paying = Counter(key[:2] for key in due), Counter(key[:2] for key in due if key[2])
        outstanding = {name: of for name, (of, _) in requested.items() if of in names and name not in known.rates}
        unknown = {name for name in names if not known.mean_usd.get(name) and known_usd(config, name) is None}
        lines = _summary(counts, paying, versions, expected, unknown, known.spent, outstanding)
        for line in [*lines, *_notes(candidates.left_out)]:
            say(line)
        if options.dry_run or not (counts or outstanding):
            say("nothing was requested (--dry-run)" if counts else _nothing(options, known))
            return DONE
        if differs := await _answer(lambda: difference(config, versions), say):
            raise ConfigError(f"nothing was requested: {differs}")
        window = RequestWindow(
            logs.turns, logs.evaluations, known, limit=options.max_usd, expected=expected, outstanding=outstanding,
            step=step, patience=options.patience,
        )  # fmt: skip
        await window.request_all(candidates.all())
    progress = window.progress
    say(_conclusion(progress, counts.total() + len(outstanding), options))
    complete = not (progress.out_of_money or progress.stalled or progress.too_large)
    failed = progress.outcomes and all(outcome.startswith("failed") for outcome in progress.outcomes)
    return DONE if complete and not failed and not candidates.left_out.by_reason["expired"] else FAILED


async def _answer(difference: Callable[[], str], say: Callable[[str], None]) -> str:
    try:
        async with asyncio.timeout(_ANSWER):
            return await asyncio.to_thread(difference)
    except TimeoutError:
        say(f"the service did not say its versions within {_ANSWER:g} s, so they are not compared with these")
        return ""


def _usd_now(config: Config) -> Callable[[Evaluation], float | None]:
    """The cost of a past evaluation today, by the prices of batches where its monitor can wait for these."""
    deferred = {name for name, monitor in config.settings.monitors.items() if monitor.urgency == "hours"}
    in_batches = at_batch_prices(config)
    return lambda past: usd_again(in_batches if past.monitor in deferred else config, past.evaluator, past)


def _versions(config: Config, options: RejudgeOptions) -> Versions:
    """The present versions of the wanted evaluators."""
    settings = config.settings
    if options.reasons and options.what == "all":
        raise ConfigError("--reason: selects what failed or was skipped, not --what all; leave one of them out")
    if not settings.store_text:
        raise ConfigError(
            f"{config.source}: store_text is false, so the texts are not stored and cannot be judged again; "
            "set store_text: true for future traffic"
        )
    require_known("--monitor", "monitor", options.monitors, settings.monitors)
    monitors = set(options.monitors) or settings.monitors.keys()
    used = {use.name for name in monitors for use in settings.monitors[name].uses}
    require_known("--evaluator", "evaluator", options.evaluators, config.evaluators)
    if idle := sorted(set(options.evaluators) - used):
        raise ConfigError(
            f"--evaluator: no selected monitor uses {idle[0]!r}, so it has nothing to judge; add it to one"
        )
    names = sorted(set(options.evaluators) or used)
    judges = [judge for name in names for judge in judges_of(name, config.evaluators)]
    # what failed was within its budget when it was due, and its price may be unknown
    needed = judges and options.max_usd is None and not options.dry_run and options.what != "failed"
    limit = "--max-usd: say what judging the past may cost, like 5; --dry-run shows an estimate" if needed else ""
    try:
        require_prices(config, judges if limit or options.max_usd is not None else [])
    except ConfigError as error:
        raise ConfigError("\n".join(filter(None, (limit, str(error))))) from None
    if limit:
        raise ConfigError(limit)
    return {use: of for use, of in evaluator_versions(config).items() if use[0] in monitors and use[1] in names}


def _summary(
    counts: Counter[tuple[str, str]], paying: Counter[tuple[str, str]], versions: Versions,
    expected: Mapping[str, float], unknown: set[str], spent: Mapping[tuple[str, str], float],
    outstanding: Mapping[str, str],
) -> list[str]:  # fmt: skip
    """The evaluations to make and the cost of those that pay; of the `unknown` evaluators a judge has no price."""
    lines = [
        f"{monitor}  {name}  {count:,}{_usd(paying[monitor, name] * expected[name], name in unknown)}"
        f"  by version {versions[monitor, name]}"
        for (monitor, name), count in sorted(counts.items())
    ]
    if counts:
        total = sum(count * expected[evaluator] for (_, evaluator), count in paying.items())
        cost = _usd(total, any(evaluator in unknown for _, evaluator in counts))
        lines.append(f"{plural(sum(counts.values()), 'evaluation')} to make{cost}")
    if outstanding:
        cost = _usd(sum(expected[of] for of in outstanding.values()), not unknown.isdisjoint(outstanding.values()))
        lines.append(f"{plural(len(outstanding), 'evaluation')} requested before and not made yet{cost}")
    paid = [f"{usd(cost)} by {evaluator} for {monitor}" for (monitor, evaluator), cost in sorted(spent.items()) if cost]
    if paid:
        total = usd(sum(spent.values()))
        lines.append(f"{total} spent on this period by earlier runs ({listed(paid)}); --max-usd counts it")
    return lines


def _usd(amount: float, is_unknown: bool) -> str:
    if is_unknown:
        return f"  (cost unknown, as a judge has no price{f'; the rest about {usd(amount)}' if amount else ''})"
    return f"  (about {usd(amount)})" if amount else ""


_REASONS: Mapping[Reason, str] = {
    "unused": "their monitor does not use their evaluator any more",
    "expired": "their turns have expired (log.retention)",
    "sampled_out": "today's `sample`, times the budget's factor when the turns came, is too low for them; a higher "
    "`sample` takes in more",
    "no_reference": "no reference has come",
    "in_flight": "the service makes them now, from live traffic",
    "unsampled": "`sample`, `match` or `boost` left them out while this version judged live traffic; they stay out, "
    "and only another version judges them",
    "represented": "an earlier run sampled at a lower rate, and its evaluations stand for these, too",
}


def _notes(left_out: LeftOut) -> list[str]:
    notes = [(left_out.by_reason[reason], text) for reason, text in _REASONS.items()]
    if older := left_out.older:
        their = f"their turns ended before --from; --from {min(older):%Y-%m-%dT%H:%M:%SZ} takes them in"
        notes.append((len(older), their))
    return [f"{plural(count, 'evaluation')} left out: {text}" for count, text in notes if count]


def _nothing(options: RejudgeOptions, known: KnownEvaluations) -> str:
    nothing = f"there is nothing to make since {options.stretch.since:%Y-%m-%dT%H:%M:%SZ}"
    if options.what == "failed" and not NEVER_TRIED.isdisjoint(options.reasons):
        return f"{nothing}; {listed(sorted(NEVER_TRIED))} are no failures: --what unscored makes these"
    failed = (past.evaluation for past in known.owed.values() if options.reasons and needs_retry(past.evaluation))
    if others := Counter(each.reason_code for each in failed if options.stretch.may_have_subject_of(each)):
        return f"{nothing}; failed for other reasons: {listed(f'{count:,} {of}' for of, count in others.items())}"
    judged = "" if options.what == "all" else ", and --what all judges again what other versions judged"
    return f"{nothing}; an earlier --from adds only older turns{judged}"


def _conclusion(progress: Progress, wanted: int, options: RejudgeOptions) -> str:
    outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(progress.outcomes.items()))
    made = f"made {progress.made:,} of {wanted:,}{f' ({outcomes})' if outcomes else ''}"
    spent = f", {usd(progress.spent_usd)} spent on this period" if progress.spent_usd else ""
    if progress.stalled:
        return (
            f"{made}{spent}; no evaluation came for {options.patience:g} s. The requests stay in the log for the "
            "service (or became dead letters: evalstream dead-letters list); run the same command again to resume"
        )
    if progress.out_of_money:
        until = progress.covered_until
        covered = f"; all that ended by {until:%Y-%m-%dT%H:%M:%SZ} is judged" if until is not None else ""
        return f"{made}{spent}: stopped by --max-usd {options.max_usd:g}{covered}; raise that and run the command again"
    live = wanted - progress.made - progress.too_large
    rest = {"larger than a record of the log may be": progress.too_large, "judged by the service meanwhile": live}
    return f"{made}{spent}" + "".join(f"; {plural(n, 'subject')} {why}" for why, n in rest.items() if n > 0)
