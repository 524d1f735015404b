"""`evalstream retry`: requests to make failed evaluations again, for the service to carry out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from collector.backoff import Backoff
from collector.commands.score.spend_limit import require_prices
from collector.config.configured import Config, judges_of
from collector.errors import ConfigError, EvalstreamError
from collector.evaluate.retry.request import PastRequest, RetryRequest, append_requests, requested_evaluations
from collector.logs.log import Log, LogUnavailable
from collector.past.evaluations import EvaluationFilter, PastEvaluation
from collector.past.owed import OwedEvaluations, read_owed
from collector.past.turns import case_of, turns_in_log
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import expected_usd
from collector.wording import plural
from evaluators.identity import retry_id
from evaluators.results import Evaluation

DONE, FAILED = 0, 1
PATIENCE = 120.0
"""Seconds for which appending requests is retried."""
_AT_ONCE = 10_000
"""Evaluations whose subjects are in memory together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """The command's options: failures of these `reasons` within `selection`, none meaning all.

    Requested are as many, the oldest first, as probably cost `max_usd` together; those that were requested before and
    are not made yet only with `again`.
    """

    selection: EvaluationFilter = EvaluationFilter()  # noqa: RUF009 - a frozen value
    reasons: Collection[str] = ()
    max_usd: float | None = None
    dry_run: bool = False
    again: bool = False

    def covers(self, evaluation: Evaluation) -> bool:
        """Whether an evaluation is selected."""
        return self.selection.covers(evaluation) and (not self.reasons or evaluation.reason_code in self.reasons)


@dataclass(slots=True)
class _Requests:
    """The outcome of the selected evaluations."""

    requested: int = 0
    expired: int = 0
    too_large: int = 0


async def retry_failed(config: Config, options: RetryOptions, say: Callable[[str], None]) -> int:
    """Request that failed evaluations are made again; the exit status: 1 if some cannot be.

    Raises:
        ConfigError: the configuration stores nothing that could be evaluated again, or has not what is named.
    """
    _check(config, options)
    async with open_stored_logs(config.settings.log) as logs:
        owed = await read_owed(logs.evaluations, options.covers)
        requested: Mapping[str, str] = {} if options.again else await requested_evaluations(logs.turns)
        new = [
            evaluation
            for evaluation in owed.evaluations
            if retry_id(evaluation.evaluation.evaluation_id) not in requested
        ]
        usable = [evaluation for evaluation in new if _is_used(config, evaluation.evaluation)]
        costs = _expected_costs(config, owed, usable)
        chosen = _within(usable, costs, options.max_usd)
        for line in _summary(chosen, costs):
            say(line)
        made = _Requests() if options.dry_run else await _request(logs.turns, chosen)
    for line in _notes(len(owed.evaluations) - len(new), len(new) - len(usable), len(usable) - len(chosen), made):
        say(line)
    say(_conclusion(chosen, costs, made, dry_run=options.dry_run))
    return FAILED if made.expired or made.too_large or len(usable) < len(new) else DONE


def _check(config: Config, options: RetryOptions) -> None:
    settings = config.settings
    if not settings.store_text:
        raise ConfigError(
            f"{config.source}: store_text is false, so the texts are not stored and cannot be evaluated again; "
            "set store_text: true for future traffic"
        )
    for name in options.selection.monitors:
        if name not in settings.monitors:
            raise ConfigError(
                f"{config.source}: there is no monitor {name}; choose from {', '.join(settings.monitors)}"
            )
    for name in options.selection.evaluators:
        if name not in config.evaluators:
            raise ConfigError(
                f"{config.source}: there is no evaluator {name}; choose from {', '.join(sorted(config.evaluators))}"
            )
    if options.max_usd is not None:
        named = options.selection.evaluators or config.evaluators
        require_prices(config, [judge for name in named for judge in judges_of(name, config.evaluators)])


def _is_used(config: Config, failed: Evaluation) -> bool:
    """Whether the evaluation's monitor still uses its evaluator."""
    monitor = config.settings.monitors.get(failed.monitor)
    return monitor is not None and any(use.name == failed.evaluator for use in monitor.uses)


def _expected_costs(config: Config, owed: OwedEvaluations, usable: Sequence[PastEvaluation]) -> Mapping[str, float]:
    """The probable cost of an evaluation, by evaluator: the mean of those that were paid for, else a guess."""
    names = {evaluation.evaluation.evaluator for evaluation in usable}
    return {name: owed.mean_usd.get(name) or expected_usd(config, name) for name in names}


def _within(
    usable: Sequence[PastEvaluation], costs: Mapping[str, float], max_usd: float | None
) -> Sequence[PastEvaluation]:
    if max_usd is None:
        return usable
    chosen: list[PastEvaluation] = []
    spent = 0.0
    for evaluation in usable:
        spent += costs[evaluation.evaluation.evaluator]
        if spent > max_usd:
            break
        chosen.append(evaluation)
    return chosen


async def _request(turns: Log, chosen: Sequence[PastEvaluation]) -> _Requests:
    made = _Requests()
    for start in range(0, len(chosen), _AT_ONCE):
        batch = chosen[start : start + _AT_ONCE]
        known = await turns_in_log(turns, {evaluation.evaluation.subject.conversation_id for evaluation in batch})
        cases = [(evaluation, case_of(evaluation.evaluation, known)) for evaluation in batch]
        requests = [
            (RetryRequest(evaluation.evaluation, case), evaluation.partition)
            for evaluation, case in cases
            if case is not None
        ]
        too_large = await _append(turns, requests)
        made.expired += len(batch) - len(requests)
        made.too_large += len(too_large)
        made.requested += len(requests) - len(too_large)
    return made


async def _append(turns: Log, requests: Sequence[tuple[RetryRequest, int | None]]) -> Sequence[PastRequest]:
    problems: list[LogUnavailable] = []
    try:
        async with asyncio.timeout(PATIENCE):
            return await Backoff(cap=10.0).repeat(
                lambda: append_requests(turns, requests),
                LogUnavailable,
                action=f"writing to the turns log (for up to {PATIENCE:g} s)",
                on_failure=problems.append,
            )
    except TimeoutError:
        raise EvalstreamError(
            f"the turns log cannot be written ({problems[-1] if problems else 'no answer'}); run the command again: "
            "what is requested twice is made once"
        ) from None


def _summary(chosen: Sequence[PastEvaluation], costs: Mapping[str, float]) -> Sequence[str]:
    counts = Counter(
        (evaluation.evaluation.monitor, evaluation.evaluation.evaluator, evaluation.evaluation.reason_code)
        for evaluation in chosen
    )
    return [
        f"{monitor}  {evaluator}  {reason}  {count:,}{_usd(count * costs[evaluator])}"
        for (monitor, evaluator, reason), count in sorted(counts.items())
    ]


def _usd(amount: float) -> str:
    return f"  (about {amount:.2f} USD)" if amount else ""


def _notes(before: int, unused: int, beyond: int, made: _Requests) -> Sequence[str]:
    notes = (
        (before, "requested before and not made yet; --again requests what was dead-lettered meanwhile"),
        (unused, "left out: their monitor does not use their evaluator any more"),
        (beyond, "left out by --max-usd; run the command again for them"),
        (made.expired, "left out: their turns have expired (log.retention)"),
        (made.too_large, "left out: with their turns they are larger than a record of the log may be"),
    )
    return [f"{plural(count, 'evaluation')} {text}" for count, text in notes if count]


def _conclusion(chosen: Sequence[PastEvaluation], costs: Mapping[str, float], made: _Requests, *, dry_run: bool) -> str:
    if not chosen:
        return "no failed evaluation to make again"
    about = _usd(sum(costs[evaluation.evaluation.evaluator] for evaluation in chosen))
    if dry_run:
        return (
            f"{plural(len(chosen), 'failed evaluation')} would be made again{about}; nothing was requested (--dry-run)"
        )
    return f"requested {plural(made.requested, 'failed evaluation')} again{about}; the running service makes them"
