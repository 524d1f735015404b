"""The golden set: cases of a file, judged again and again by the evaluators of the monitors, apart from the traffic.

A run begins on a schedule, and at once when an evaluator's version or its judge's model is new, when the judge reports
another name or fingerprint in live evaluations than in the newest run, when scores seem to fall, or when single cases,
a share of the judge's live calls, deviate (`SingleCaseTest`). A few cases are asked at a time; an alert may wait for
the answer.

Scores are stored beside the evaluation steps in the definitions log, so that a restart evaluates nothing again: a run
under evaluator, version, configured model and the number of its period, runs after a reported change under their number
in that period, too, references under evaluator and case.
"""

import asyncio
import hashlib
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import orjson

from collector.backoff import FailureLog
from collector.errors import BadInput, ConfigError
from collector.evaluate.plan import Assignment
from collector.logs.log import Log, LogUnavailable
from collector.logs.whole_log import IncrementalReader, end_offsets
from collector.records.json import evaluation_from_json, readable, record_of
from collector.records.numbered_lines import numbered_lines
from collector.statistics import judge_change
from collector.statistics.intervals import Z, plus_minus
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import GOLDEN_CASES, GOLDEN_LAST_RUN, GOLDEN_SHIFT, GOLDEN_SHIFT_STDERR
from collector.wording import listed, minute_in_utc, plural, unknown
from evaluators.asking.judge_input import is_missing
from evaluators.cases import Conversation, Turn, scope_of
from evaluators.evaluation import Result, evaluate
from evaluators.evaluator import Evaluator
from evaluators.judges.definition_cache import AnswerStore
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.results import Failure, JudgeStamp, Score, Skipped
from evaluators.texts.exact_json import parse_exactly


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A frozen case. `scores` are its references by evaluator; an evaluator's first run gives the missing ones.

    `case_id` is a hash of the case: a changed case is a new one.
    """

    case_id: str
    case: Turn | Conversation
    scores: Mapping[str, float]


def read_cases(path: Path) -> tuple[GoldenCase, ...]:
    """Read the file: a turn or conversation record a line, with `scores` beside its fields.

    Raises:
        ConfigError: it cannot be read, or a line is not right; says which and why, not what was in it.
    """
    path = path.absolute()
    cases = [_case(line, f"{path}, line {number}") for number, line in numbered_lines(path, "golden.path: ", remedy="")]
    if not cases:
        raise ConfigError(f"golden.path: {path}: has no cases")
    return tuple(cases)


def cases_for(evaluator: Evaluator[Any], cases: Sequence[GoldenCase]) -> Sequence[GoldenCase]:
    """The cases by which an evaluator's judge is watched, turns or conversations; none if it can score too few.

    A judge without such cases is watched by its evaluator's past, as without a golden set.
    """
    own = _of_scope(evaluator, cases)
    return own if sum(not _lacking(case, evaluator) for case in own) >= judge_change.MIN_PAIRS else ()


def _of_scope(evaluator: Evaluator[Any], cases: Sequence[GoldenCase]) -> Sequence[GoldenCase]:
    return [case for case in cases if scope_of(case.case) == evaluator.scope]


def _case(line: bytes, where: str) -> GoldenCase:
    try:
        values: Any = parse_exactly(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"golden.path: {where}: is not JSON; write one object a line") from error
    if not isinstance(values, dict):
        raise ConfigError(f"golden.path: {where}: should be an object: a turn or a conversation, with scores")
    values = dict(values)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    scores = _scores(values.pop("scores", {}), where)  # pyright: ignore[reportUnknownArgumentType]
    case_id = hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    try:
        case = record_of(values, Conversation if "turns" in values else Turn)
    except BadInput as error:
        raise ConfigError(f"golden.path: {where}: {error}") from None
    return GoldenCase(case_id, case, scores)


def _scores(scores_by_name: Any, where: str) -> dict[str, float]:
    if not isinstance(scores_by_name, dict):
        raise ConfigError(f"golden.path: {where}: scores should be an object: evaluator to score")
    scores: dict[str, float] = {}
    for name, score in scores_by_name.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise ConfigError(f"golden.path: {where}: scores.{name}: should be a number from 0 to 1")
        scores[str(name)] = float(score)  # pyright: ignore[reportUnknownArgumentType]
    return scores


def case_notes(
    cases: Sequence[GoldenCase], evaluators: Mapping[str, Evaluator[Any]], known: Collection[str]
) -> Iterator[str]:
    """A line for each evaluator whose judge the set cannot watch, and for references of none that is `known`.

    `evaluators` are those in use that ask a judge, by name. `dataset` also writes the scores of others.
    """
    for name, evaluator in evaluators.items():
        own = _of_scope(evaluator, cases)
        lacking = [fields for case in own if (fields := _lacking(case, evaluator))]
        if not cases_for(evaluator, cases):
            fields = sorted({field for each in lacking for field in each})
            why = f" ({len(lacking)} lack {listed(fields)})" if fields else ""
            usable = f"{len(own) - len(lacking)} of {plural(len(cases), 'case')}"
            needed = judge_change.MIN_PAIRS
            yield f"golden.path: {name} can score {usable}{why} and needs {needed}: its alerts score past cases"
    for name in sorted({name for case in cases for name in case.scores}.difference(known)):
        yield f"golden.path: scores names an {unknown('evaluator', name, known)}"


def _lacking(case: GoldenCase, evaluator: Evaluator[Any]) -> list[str]:
    """The fields without which the case is skipped."""
    if isinstance(case.case, Turn) and case.case.incomplete is not None:
        return ["content"]
    return sorted(name for name in evaluator.requires if is_missing(case.case, name))


CONCURRENCY = 4
"""Cases evaluated at once: few, since traffic has priority."""
FIRST_WAIT = 1.0
"""Seconds from the first look to the second; later waits are longer. After an outage, calls come at once: the judge may
have changed meanwhile."""
ANSWERED_WITHIN = 30.0
"""Seconds that an alert waits for the run that it requested."""


@dataclass(frozen=True, slots=True)
class GoldenTarget:
    """An evaluator whose judge is checked. `judge` is the judge's name in the configuration, `monitor` who pays."""

    assignment: Assignment
    judge: str
    monitor: str = ""

    @property
    def key(self) -> str:
        """Evaluator, version and model: what a run belongs to."""
        return f"{self.assignment.evaluator.name}/{self.assignment.version}/{self.assignment.judge.model}"

    @property
    def definition(self) -> tuple[str, str]:
        """Evaluator and version."""
        return self.assignment.evaluator.name, self.assignment.version


R = TypeVar("R", bound=Result | None)


async def results_of(cases: Iterable[GoldenCase], ask: Callable[[GoldenCase], Awaitable[R]]) -> dict[str, R]:
    """The result of every case by its id."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def score(case: GoldenCase) -> tuple[str, R]:
        async with slots:
            return case.case_id, await ask(case)

    return dict(await asyncio.gather(*map(score, cases)))


def score_of(result: Result | None) -> float | None:
    """Its score, if it has one."""
    return result.outcome.value if result is not None and isinstance(result.outcome, Score) else None


class Requests:
    """Requests for work of a task that otherwise runs by the clock."""

    def __init__(self) -> None:
        # the work is done first at a start, and has no answer before
        self._request, self._answer = asyncio.Event(), asyncio.Event()

    def ask(self) -> None:
        """Have the work done at once."""
        self._answer.clear()
        self._request.set()

    async def wait_for_answer(self) -> bool:
        """Wait a little until it is done; whether it was asked for, and not done before."""
        if self._answer.is_set():
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._answer.wait(), ANSWERED_WITHIN)
        return True

    async def serve(self, work: Callable[[], Awaitable[None]], every: float) -> None:
        """Do the work every so many seconds, sooner after the start, and when it is asked for."""
        wait = min(FIRST_WAIT, every)
        while True:
            self._request.clear()
            await work()
            if not self._request.is_set():
                self._answer.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._request.wait(), wait)
            wait = min(2.0 * wait, every)


JudgeName = tuple[str, str | None]
"""A judge's model as it names itself, and its fingerprint if it has one."""


def judge_name(stamp: JudgeStamp) -> JudgeName:
    """The name in a stamp, without the prompt's hash, which the evaluator's version contains."""
    return stamp.model, stamp.fingerprint


class ReportedJudges:
    """The newest name that the judge of each evaluator, in a version, has reported since the first reading."""

    def __init__(self, evaluations: Log) -> None:
        self._evaluations = evaluations
        self._reader: IncrementalReader | None = None
        self.newest: dict[tuple[str, str], JudgeName] = {}
        """The model name in the last answer of the judge, by evaluator and version."""
        self.calls = Counter[tuple[str, str]]()
        """The evaluations that were paid since the first reading, by evaluator and version."""

    async def read_on(self) -> None:
        """Read the evaluations made since the last reading. Raises LogUnavailable."""
        if self._reader is None:
            self._reader = IncrementalReader(self._evaluations, await end_offsets(self._evaluations))
        async for record in self._reader.records():
            evaluation = None if record.headers else readable(evaluation_from_json, record.value)
            if evaluation is not None and evaluation.judge is not None:
                definition = evaluation.evaluator, evaluation.evaluator_version
                self.newest[definition] = judge_name(evaluation.judge)
                self.calls[definition] += evaluation.shares is None


logger = logging.getLogger(__name__)

CHECK_EVERY = 60.0
"""Seconds between two checks whether a run is due."""
LONGEST_WAIT = 3600.0
"""Seconds between two attempts at a run that fails: each asks the judge about every case."""
MOST_CHANGES = 5
"""Runs after reported changes and suspicious falls in one period at most: some endpoints change each time."""
MOST_RUNS = 10
"""The most runs in one period, if alerts or single cases that moved request some, too."""
SAME_FALL = 3600.0
"""After this many seconds without a suspicion, the next one is about another fall."""
_DAY = 86_400.0
"""The longest window (s) whose mean a shift of a judge explains."""
_MOST_PERIODS = 96
"""The most periods whose runs are read at a start: each is a question to the log."""
_HISTORY = 20
"""Runs of a target that are kept in memory, and the earlier periods whose runs are read at a start."""


@dataclass(frozen=True, slots=True)
class _Attempts:
    """How often a run has failed, and when (s since the epoch) it is tried next."""

    failed: int = 0
    next_at: float = 0.0

    def after(self, now: float) -> "_Attempts":
        return _Attempts(self.failed + 1, now + min(CHECK_EVERY * 2.0 ** min(self.failed, 10), LONGEST_WAIT))


@dataclass(frozen=True, slots=True)
class _Published:
    """The newest run of a target: its period, its number in that, and the names that its judge answered by."""

    period: int
    number: int
    names: frozenset[JudgeName]


@dataclass(slots=True)
class _Checked:
    """The state of a target: its runs, and why another may be due."""

    published: _Published | None = None
    attempts: _Attempts = field(default_factory=_Attempts)
    runs: list[judge_change.GoldenRun] = field(default_factory=list[judge_change.GoldenRun])
    falling: judge_change.Suspicion | None = None
    suspected_at: float = 0.0
    """When it was last said to be (s)."""
    drip: judge_change.SingleCaseTest = field(default_factory=judge_change.SingleCaseTest)
    calls: int = 0
    """The judge's live calls that single cases were asked for."""
    dripped: int = 0

    refused: int = -1
    """The newest period in which a run was due after the last that it may have."""

    def suspects(self, now: float) -> bool:
        """Whether a run is to say if the judge has changed."""
        is_falling = self.falling is not None and self.falling.asks(self.runs, now)
        # cases that have no score have none the next time, either
        return bool(self.runs) and (self.drip.has_tripped or is_falling)

    def may_run(self) -> bool:
        """Whether the newest run is not yet the last of its period for such a suspicion."""
        is_strong = self.drip.has_tripped or (self.falling is not None and self.falling.alert_since is not None)
        return self.published is not None and self.published.number < (MOST_RUNS if is_strong else MOST_CHANGES)


@dataclass(frozen=True, slots=True)
class GoldenRules:
    """`every` is in seconds; a shift up to `tolerance` is ignored; `share` is the share of live calls that are asked
    again.
    """

    every: float
    tolerance: float
    share: float = 0.0


@dataclass(eq=False, repr=False)
class GoldenRuns:
    """The runs of all evaluators that have a judge. `charge` counts the cost of an answer of a target's judge."""

    cases: Sequence[GoldenCase]
    targets: Sequence[GoldenTarget]
    store: AnswerStore
    telemetry: Telemetry
    reported: ReportedJudges
    rules: GoldenRules
    charge: Callable[[GoldenTarget, Result], None]
    _: KW_ONLY
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._reading = FailureLog("reading what judges report of themselves")
        names = {target.assignment.evaluator.name for target in self.targets}
        self._scoring = {name: FailureLog(f"scoring the golden set with {name}") for name in names}
        self.checked = {target.key: _Checked() for target in self.targets}
        self._unscorable: set[str] = set()
        self._shifts: dict[str, list[tuple[float, judge_change.ScoreShift]]] = {}
        """The shifts of each evaluator by the times of its runs (s), oldest first."""
        self.incidents: dict[tuple[str, str], Collection[tuple[float, float]]] = {}
        """Begins and ends (s) of incidents that are over, by evaluator and version."""
        self._requests = Requests()
        self.wait_for_answer = self._requests.wait_for_answer

    def continue_falls(self, earlier: object) -> None:
        """Keep when falls and their alerts began, by an earlier configuration's runs: else an alert that lasts asked
        the set again, as a new one does.
        """
        if isinstance(earlier, GoldenRuns):
            for key, known in self.checked.items():
                was = earlier.checked.get(key, known)
                known.falling, known.suspected_at = was.falling, was.suspected_at

    def shifted(self, evaluator: str) -> tuple[str, float | None]:
        """The significant shift of an evaluator's judge by its newest run in a sentence, and since which run (s); ""
        without one.
        """
        shifts = self._shifts.get(evaluator, [])
        first = self._first_of_shift(shifts)
        if first == len(shifts):
            return "", None
        shift = shifts[-1][1]
        by = f"{shift.mean:+z.2f} {plus_minus(Z * shift.stderr, 2)}"
        judge = next((of.judge for of in self.targets if of.assignment.evaluator.name == evaluator), "its judge")
        sentence = f"On the golden set the scores of {evaluator} by {judge} differ by {by} from their references."
        return sentence, shifts[first][0]

    def _first_of_shift(self, shifts: Sequence[tuple[float, judge_change.ScoreShift]]) -> int:
        """The index of the first of the newest runs that all have a significant shift."""
        return len(shifts) - sum(1 for _ in takewhile(lambda of: of[1].exceeds(self.rules.tolerance), reversed(shifts)))

    def judge_since(
        self, evaluator: str, version: str, since: float, *, alerting: bool, detected_at: float = math.inf
    ) -> judge_change.JudgeVerdict | None:
        """The verdict of the set on a judge since scores seem to fall (s), and were found to (s). Asks for a run if one
        is due.
        """
        for target in self.targets:
            if target.definition == (evaluator, version):
                known = self.checked[target.key]
                now = self.clock()
                over = max((end for _, end in self.incidents.get(target.definition, ()) if end <= now), default=0.0)
                begun = judge_change.Suspicion(since)
                before = (known.falling if now - known.suspected_at <= SAME_FALL else None) or begun
                if before.since < over:  # another fall; of another monitor's that is on, the alert stays known
                    alert_since = before.alert_since if (before.alert_since or 0.0) >= over else None
                    before = judge_change.Suspicion(since, alert_since)
                # while a window still holds a fall, scores that have recovered move its begin to now
                since = min(since, before.since)
                known.falling = judge_change.Suspicion(since, (before.alert_since or now) if alerting else None)
                known.suspected_at = now
                if known.suspects(now) and known.may_run():
                    self._requests.ask()
                return judge_change.judge_since(known.runs, since, detected_at=detected_at)
        return None

    def explained_miss(self, evaluator: str, lower_is_better: bool, length: float, now: float) -> float:
        """How much worse an evaluator's scores of the `length` s before `now` may be by its judge alone: by the newest
        run until then or, if that is more, by the mean over this time. 0 without a significant shift.
        """
        misses = [miss for miss in self._misses(evaluator, lower_is_better) if miss[0] <= now]
        over = sum(miss * max(0.0, min(end, now) - max(at, now - length)) for at, end, miss in misses)
        return max(misses[-1][2], over / length) if misses else 0.0

    def largest_miss(self, evaluator: str, lower_is_better: bool, since: float, until: float) -> float:
        """How much worse an evaluator's scores of some time (s since the epoch) were by its judge alone, at most."""
        misses = (miss for at, end, miss in self._misses(evaluator, lower_is_better) if at <= until and end > since)
        return max(misses, default=0.0)

    def _misses(self, evaluator: str, lower_is_better: bool) -> list[tuple[float, float, float]]:
        """How much worse an evaluator's scores are by its judge, with the begin and end (s) of that time: what a run
        found holds until the next run, the newest until now.
        """
        shifts, tolerance = self._shifts.get(evaluator, []), self.rules.tolerance
        ends = [*(at for at, _ in shifts[1:]), self.clock()]
        return [
            (at, end, shift.explains(lower_is_better=lower_is_better) if shift.exceeds(tolerance) else 0.0)
            for (at, shift), end in zip(shifts, ends, strict=False)
        ]

    def withdraw(self) -> None:
        """Remove the series of its runs: another configuration's come in their place, without replaced versions."""
        for target in self.targets:
            labels = target.assignment.evaluator.name, target.assignment.version, target.judge
            for series in (GOLDEN_LAST_RUN, GOLDEN_SHIFT, GOLDEN_SHIFT_STDERR):
                self.telemetry.remove(series, *labels)
            for outcome in ("scored", "unscored"):
                self.telemetry.remove(GOLDEN_CASES, *labels, outcome)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    async def run_forever(self) -> None:
        """Run whenever a run is due."""
        await self._requests.serve(self.run_due, min(CHECK_EVERY, self.rules.every))

    async def run_due(self) -> None:
        """Make the runs that are due, and ask the single cases."""
        with self._reading.attempt(LogUnavailable):
            await self.reported.read_on()
        # all of them before a judge is asked, which takes long: the alerts of a start need them
        for target in self.targets:
            if self.checked[target.key].published is None:
                await self._read_stored(target)
        for target in self.targets:
            if self.clock() < self.checked[target.key].attempts.next_at:
                continue
            await self._ask_single_cases(target)
            while (due := self._due(target)) is not None and await self._run(target, *due):
                pass  # runs that another process has stored meanwhile

    async def _read_stored(self, target: GoldenTarget) -> None:
        """Take the stored runs, with all of a period, so that a fall is compared with the same ones after a restart."""
        current = int(self.clock() // self.rules.every)
        of_a_day = min(math.ceil(_DAY / self.rules.every), _MOST_PERIODS)
        for period in range(current - max(_HISTORY, of_a_day), current + 1):
            for number in range(MOST_RUNS + 1):
                text = await self.store.load(_run_key(target, period, number))
                if text is None:
                    break
                await self._take(target, period, number, text)

    async def _ask_single_cases(self, target: GoldenTarget) -> None:
        """Ask one case after another of the set, for a share of the live calls: at most one set of them at once."""
        known, cases = self.checked[target.key], _of_scope(target.assignment.evaluator, self.cases)
        calls = self.reported.calls[target.definition]
        due = min(len(cases), int(self.rules.share * (calls - known.calls)))
        if not due or not known.runs:
            return
        known.calls = calls
        chosen = [cases[(known.dripped + number) % len(cases)] for number in range(due)]
        known.dripped += due
        for case, result in (await results_of(chosen, partial(self._evaluate, target))).items():
            if (score := score_of(result)) is not None:
                known.drip.add(case, score, known.runs)

    def _due(self, target: GoldenTarget) -> tuple[int, int] | None:
        """The period of the run that is due, and its number in that; None if none is."""
        known = self.checked[target.key]
        period, newest = int(self.clock() // self.rules.every), known.published
        if newest is None or newest.period != period:
            return period, 0
        name = self.reported.newest.get(target.definition)
        if not newest.names and name is not None:  # a run of an earlier release, which did not note it
            known.published = replace(newest, names=frozenset({name}))
            return None
        is_new = name is not None and name not in newest.names and newest.number < MOST_CHANGES
        if is_new or (known.suspects(self.clock()) and known.may_run()):
            return period, newest.number + 1
        if known.suspects(self.clock()) and newest.number >= MOST_RUNS and known.refused != period:
            known.refused = period
            logger.warning(
                "the judge of %s may have changed, but the golden set was scored %d times in this golden.interval, "
                "which is the most; it is scored again at %s",
                target.assignment.evaluator.name, newest.number + 1,
                minute_in_utc((period + 1) * self.rules.every),
            )  # fmt: skip
        return None

    async def _run(self, target: GoldenTarget, period: int, number: int) -> bool:
        """Publish a run; make it if no process has. Whether it is published and was stored, so that more may be.

        One that cannot be made is retried, ever more seldom.
        """
        key = _run_key(target, period, number)
        known, name = self.checked[target.key], self.reported.newest.get(target.definition)
        text = stored = await self.store.load(key)
        if text is None:
            results = await self._results(target)
            if results is None:
                known.attempts = known.attempts.after(self.clock())
                return False
            names = {judge_name(result.judge) for result in results.values() if result.judge}
            names |= {name} if name else set()
            scores = {case: score_of(result) for case, result in results.items()}
            if not any(score is not None for score in scores.values()):
                # not saved: the file may be mended before the next start
                known.published = _Published(period, number, frozenset(names))
                return False
            record = {"at": self.clock(), "scores": scores, "judges": sorted(names, key=repr)}
            text = await self.store.save(key, orjson.dumps(record).decode())
        await self._take(target, period, number, text)
        return stored is not None

    async def _take(self, target: GoldenTarget, period: int, number: int, text: str) -> None:
        """Publish a run, and keep it for later falls."""
        run, known = orjson.loads(text), self.checked[target.key]
        scores = {case: score for case, score in run["scores"].items() if score is not None}
        moved = judge_change.score_shift(scores, known.runs[-1].scores) if known.runs else None
        known.runs = [*known.runs, judge_change.GoldenRun(run["at"], scores)][-_HISTORY:]
        await self._publish(target, run["scores"], run["at"])
        judges = frozenset((str(model), fingerprint) for model, fingerprint in run.get("judges", ()))
        known.published, known.attempts = _Published(period, number, judges), _Attempts()
        # single cases are compared with the judge as it is since, whatever the run was for: else nobody sees a repair
        if known.drip.has_tripped or (moved is not None and moved.is_sure):
            known.drip = judge_change.SingleCaseTest(began=run["at"])

    async def _results(self, target: GoldenTarget) -> dict[str, Result] | None:
        """The result of every case by its id; None if more than half of them failed.

        A skipped case would be skipped again: it has no score, and is no reason to ask again for the others.
        """
        evaluator = target.assignment.evaluator
        results = await results_of(_of_scope(evaluator, self.cases), partial(self._evaluate, target))
        outcomes = [result.outcome for result in results.values()]
        self._warn_of_skipped(evaluator.name, [outcome for outcome in outcomes if isinstance(outcome, Skipped)])
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if len(failures) * 2 > len(outcomes):
            self._scoring[evaluator.name].failed(
                f"{len(failures)} of {len(outcomes)} cases have no score: "
                f"{_listed(failure.type for failure in failures)}"
            )
            return None
        self._scoring[evaluator.name].succeeded()
        return results

    async def _evaluate(self, target: GoldenTarget, case: GoldenCase) -> Result:
        evaluator, judge = target.assignment.evaluator, target.assignment.judge
        if target.assignment.pack:  # asked as in its pack, though alone: a case of the set may be no other's
            result = (await evaluate_pack([evaluator], case.case, judge, now=self._now))[0]
        else:
            result = await evaluate(evaluator, case.case, judge, now=self._now)
        self.charge(target, result)
        return result

    def _warn_of_skipped(self, evaluator: str, skipped: Sequence[Skipped]) -> None:
        """Say once which cases can never have a score, and why."""
        if skipped and evaluator not in self._unscorable:
            logger.warning(
                "%s of the golden set cannot be scored with %s (%s): give them what it needs, in the file golden.path, "
                "and start again",
                plural(len(skipped), "case"), evaluator, _listed(each.reason for each in skipped),
            )  # fmt: skip
            self._unscorable.add(evaluator)

    async def _publish(self, target: GoldenTarget, scores: Mapping[str, float | None], at: float) -> None:
        evaluator, version = target.assignment.evaluator.name, target.assignment.version
        labels = (evaluator, version, target.judge)
        scored = sum(score is not None for score in scores.values())
        self.telemetry.gauge(GOLDEN_CASES, *labels, "scored").set(scored)
        self.telemetry.gauge(GOLDEN_CASES, *labels, "unscored").set(len(scores) - scored)
        self.telemetry.gauge(GOLDEN_LAST_RUN, *labels).set(at)
        shift = judge_change.score_shift(scores, await self._references(evaluator, scores))
        if shift is None:
            return
        shifts = sorted([*self._shifts.get(evaluator, ()), (at, shift)], key=itemgetter(0))
        old = sum(run_at < self.clock() - _DAY for run_at, _ in shifts[1:])  # the newest of these is in force after it
        begin = shifts[self._first_of_shift(shifts) : old][:1]  # a shift that lasts is since its first run
        self._shifts[evaluator] = [*begin, *shifts[old:]]
        self.telemetry.gauge(GOLDEN_SHIFT, *labels).set(shift.mean)
        self.telemetry.gauge(GOLDEN_SHIFT_STDERR, *labels).set(shift.stderr)

    async def _references(self, evaluator: str, scores: Mapping[str, float | None]) -> dict[str, float]:
        references: dict[str, float] = {}
        for case in self.cases:
            score = scores.get(case.case_id)
            if evaluator in case.scores:
                references[case.case_id] = case.scores[evaluator]
            elif score is not None:
                key = f"golden.reference/{evaluator}/{case.case_id}"
                stored = await self.store.load(key) or await self.store.save(key, repr(score))
                references[case.case_id] = float(stored)
        return references


def _run_key(target: GoldenTarget, period: int, number: int) -> str:
    return f"golden.run/{target.key}/{period}" + (f"/{number}" if number else "")


def _listed(reasons: Iterable[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common(3))
