"""Sizing on paper: the processes, partitions, broker traffic, judge requests, tokens and money that a traffic needs.

The costs are measured: tests/bench/SIZING.md says how they come out of the figures of `make bench`. Another machine has
others, and so has other traffic: the result tells tens of processes from one, not seven from eight. CPU times of spans,
turns and evaluations are those in pure Python, and compiled as in the image.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collector.config.configured import Config, judges_of
from collector.config.settings import BudgetSettings, JudgeSettings, TrafficSettings
from collector.records.grouping import group_by
from collector.telemetry.compilation import is_compiled
from collector.wording import figure, percent, plural, usd

FLOOR = 10.3e-6
"""Seconds of CPU of parsing a span and making a dict of its attributes, on the machine that these costs are of: another
takes more or less in proportion."""
AT_REST = {"receive": 0.012, "assemble": 0.012, "evaluate": 0.012, "export": 0.017}
"""Share of a core that a process uses over Kafka before anything comes: its consumers ask, commit and beat."""
ROUND = {"receive": 0.0045, "assemble": 0.0035, "evaluate": 0.001, "export": 0.0}
"""Seconds of CPU of a round of a process, whatever it brings: a poll, a delivery, an append, for three partitions."""
ROUNDS = 10.0
"""Rounds a second of a process to which records come all the time: see `DeliveryPace`."""
TURNS_OF_A_ROUND = 50.0
"""Turns that come together at least, as senders batch them: with fewer turns a second there are fewer rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCosts:
    """Seconds of CPU over Kafka, beside what a process takes at rest and for its rounds.

    Receiving a span, and redacting and appending a trace; assembling a span, and a turn; evaluating a turn's monitors;
    making and appending an evaluation without its judge request; that request; one that goes into a batch of 100, for
    which the evaluation runs twice; exporting an evaluation. And of a turn that no monitor can want, with
    `assemble.keep: wanted`, if it is a plain model call in one request: receiving its trace beside its spans, all of
    its assembly, and a look at it.
    """

    receive_span: float
    receive_trace: float
    assemble_span: float
    assemble_turn: float
    evaluate_turn: float
    evaluation: float
    judge_request: float
    export_evaluation: float
    unwanted_trace: float
    unwanted_assemble_turn: float
    unwanted_evaluate_turn: float

    @property
    def deferred_request(self) -> float:
        """The cost of a batch."""
        return 1.15 * self.judge_request


_MICROSECONDS = {
    "receive_span": (12, 10), "receive_trace": (90, 85), "assemble_span": (10, 8), "assemble_turn": (330, 260),
    "evaluate_turn": (16, 16), "evaluation": (470, 430), "judge_request": (930, 850), "export_evaluation": (200, 200),
    "unwanted_trace": (130, 110), "unwanted_assemble_turn": (34, 30), "unwanted_evaluate_turn": (2, 2),
}  # fmt: skip
"""In pure Python, and compiled."""
PURE, COMPILED = (CpuCosts(**{name: each[n] / 1e6 for name, each in _MICROSECONDS.items()}) for n in (0, 1))


def costs_here() -> CpuCosts:
    """Those of the evalstream that runs."""
    return COMPILED if is_compiled() else PURE


UTILISATION = 0.6
"""Share of a core that a process should use at the usual traffic; the rest is for peaks, and for catching up."""
JUDGE_SECONDS = 2.0
"""How long a judge's answer takes, for what is in flight."""
EVALUATION_BYTES = 1500
TURN_OVERHEAD = 600
"""Bytes of a turn's record beside its texts."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class StageNeed:
    """The cores that a stage uses on average, and how many processes of one core each it therefore needs."""

    stage: str
    cores: float
    processes: int


@dataclass(frozen=True, slots=True)
class JudgeNeed:
    """Requests to one judge, those among them that wait for batches. `usd_per_day` is None if it has no price."""

    judge: str
    requests_per_second: float
    deferred_per_second: float
    in_flight: int
    input_tokens_per_second: float
    output_tokens_per_second: float
    usd_per_day: float | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The needs of a traffic. Broker traffic is before compression and replication; MB are 10⁶ bytes."""

    spans_per_second: float
    turns_per_second: float
    evaluations_per_second: float
    stages: tuple[StageNeed, ...]
    partitions: int
    broker_in_mb_per_second: float
    broker_out_mb_per_second: float
    judges: tuple[JudgeNeed, ...]
    usd_per_day: float | None


def capacity_of(config: Config, costs: CpuCosts) -> Capacity | None:
    """The needs of the traffic in the configuration, at these costs; None if it has none."""
    traffic = config.settings.traffic
    if traffic is None:
        return None
    turns = traffic.spans_per_second / traffic.spans_per_turn
    rates = list(expected_uses(config, traffic))
    evaluations = sum(use.per_second for use in rates)
    judges = tuple(_judges(config, traffic, _requests(rates)))
    deferred = sum(judge.deferred_per_second for judge in judges)
    requests = sum(judge.requests_per_second for judge in judges) - deferred
    wanted = _wanted_share(config)
    stages = _stages(costs, traffic.spans_per_second, turns, wanted, evaluations, requests, deferred)
    spans_mb = traffic.spans_per_second * traffic.bytes_per_span / 1e6
    turns_mb = turns * (wanted * traffic.bytes_per_turn + TURN_OVERHEAD) / 1e6
    evaluations_mb = evaluations * EVALUATION_BYTES / 1e6
    sums = [judge.usd_per_day for judge in judges]
    # partitions: twice the processes that the largest stage needs, as the number is fixed; a power of two
    return Capacity(
        spans_per_second=traffic.spans_per_second, turns_per_second=turns, evaluations_per_second=evaluations,
        stages=stages, partitions=max(16, 1 << (2 * _most_of_a_stage(stages) - 1).bit_length()),
        broker_in_mb_per_second=spans_mb + turns_mb + evaluations_mb,
        broker_out_mb_per_second=spans_mb + turns_mb + evaluations_mb * max(1, len(config.exporters)), judges=judges,
        usd_per_day=None if None in sums else sum(each or 0.0 for each in sums),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """An evaluator of a monitor, the evaluations that it makes in a second, whether these may wait for batches, and
    the subjects that the monitor watches.
    """

    name: str
    per_second: float
    deferred: bool
    watches: str


def expected_uses(config: Config, traffic: TrafficSettings) -> Iterator[ExpectedUse]:
    """The evaluators of all monitors."""
    for monitor in config.settings.monitors.values():
        hourly = monitor.alerts.turns_per_hour
        matching = traffic.spans_per_second / traffic.spans_per_turn if hourly is None else hourly / 3600.0
        for use in monitor.uses:
            of_conversations = config.evaluators[use.name].evaluator.scope == "conversation"
            subjects = matching / traffic.turns_per_conversation if of_conversations else matching
            watches = monitor.subjects if hourly is None else f"{monitor.subjects} {monitor.match}"
            yield ExpectedUse(use.name, subjects * monitor.rate_of(use), monitor.urgency == "hours", watches)


def _requests(uses: Iterable[ExpectedUse]) -> list[ExpectedUse]:
    """Those whose judge is asked: for the same subjects once for all monitors, at the highest of their rates."""
    groups = group_by(uses, lambda use: (use.name, use.deferred, use.watches))
    return [max(group, key=lambda use: use.per_second) for group in groups.values()]


def _wanted_share(config: Config) -> float:
    """The share of turns that are read: all of them with `keep: all`, else those of the highest rate.

    A conversation has one draw for all evaluators, so a higher rate selects everything that a lower rate selects.
    """
    if config.settings.assemble.keep == "all":
        return 1.0
    monitors = config.settings.monitors.values()
    return max((monitor.rate_of(use) for monitor in monitors for use in monitor.uses), default=0.0)


def _stages(
    costs: CpuCosts, spans: float, turns: float, wanted: float, evaluations: float, requests: float, deferred: float
) -> tuple[StageNeed, ...]:
    unwanted = 1.0 - wanted
    turn = wanted * costs.evaluate_turn + unwanted * costs.unwanted_evaluate_turn
    assembled = spans * costs.assemble_span + turns * costs.assemble_turn
    asking = requests * costs.judge_request + deferred * costs.deferred_request
    work = {
        "receive": spans * costs.receive_span
        + turns * (wanted * costs.receive_trace + unwanted * costs.unwanted_trace),
        "assemble": wanted * assembled + unwanted * turns * costs.unwanted_assemble_turn,
        "evaluate": turns * turn + evaluations * costs.evaluation + asking,
        "export": evaluations * costs.export_evaluation,
    }
    return tuple(_need(stage, cores, turns) for stage, cores in work.items())


def _need(stage: str, work: float, turns: float) -> StageNeed:
    processes = max(1, math.ceil(work / (UTILISATION - AT_REST[stage] - ROUNDS * ROUND[stage])))
    rounds = min(ROUNDS, turns / processes / TURNS_OF_A_ROUND)
    return StageNeed(stage, work + processes * (AT_REST[stage] + rounds * ROUND[stage]), processes)


def _most_of_a_stage(stages: Iterable[StageNeed]) -> int:
    """The processes of the largest stage that shares the logs' partitions: `receive` only writes them."""
    return max(stage.processes for stage in stages if stage.stage != "receive")


def _judges(config: Config, traffic: TrafficSettings, uses: list[ExpectedUse]) -> Iterator[JudgeNeed]:
    rates: dict[str, float] = {}
    deferred: dict[str, float] = {}
    for use in uses:
        judge, audit = config.evaluators[use.name].judge, config.evaluators[use.name].audit
        named = [(judge, use.per_second)] if judge else []
        if audit is not None:
            named.append((judges_of(use.name, config.evaluators)[-1], use.per_second * audit.share))
        for name, its_rate in named:
            for member in config.settings.members(name):
                rates[member] = rates.get(member, 0.0) + its_rate
                deferred[member] = deferred.get(member, 0.0) + its_rate * use.deferred
    for name, rate in rates.items():
        judge_settings = config.settings.judges[name]
        yield JudgeNeed(
            judge=name, requests_per_second=rate, deferred_per_second=deferred[name],
            in_flight=math.ceil((rate - deferred[name]) * JUDGE_SECONDS),
            input_tokens_per_second=rate * traffic.input_tokens, output_tokens_per_second=rate * traffic.output_tokens,
            usd_per_day=_usd(judge_settings, traffic, rate - judge_settings.batch_discount * deferred[name]),
        )  # fmt: skip


def _usd(judge: JudgeSettings, traffic: TrafficSettings, rate: float) -> float | None:
    if judge.prices is None:
        return None
    input_price, output_price = judge.prices
    return rate * _DAY * (traffic.input_tokens * input_price + traffic.output_tokens * output_price) / 1e6


def capacity_lines(config: Config) -> Iterator[str]:
    """Lines of the plan: the needs of the configured traffic, and the limits that are below them."""
    costs = costs_here()
    needed = capacity_of(config, costs)
    if needed is None:
        return
    yield (
        f"capacity   {figure(needed.spans_per_second)} spans/s = {figure(needed.turns_per_second)} turns/s, "
        f"{figure(needed.evaluations_per_second)} evaluations/s"
    )
    stages = ", ".join(f"{stage.stage} {stage.processes} ({stage.cores:.2g} cores)" for stage in needed.stages)
    yield f"           processes: {stages}"
    if costs is PURE and sum(stage.processes for stage in needed.stages) > len(needed.stages):
        yield "           this is for pure Python, as installed here; the compiled image needs fewer processes"
    if _wanted_share(config) < 1.0:
        yield "           this supposes traces that come whole in one request; others cost as much as with keep: all"
    log, written = config.settings.log, needed.broker_in_mb_per_second
    yield (
        f"           SQLite: up to {figure(written * log.retention / 1000.0)} GB on disk within log.retention"
        if log.kind == "sqlite"
        else f"           Kafka: {plural(needed.partitions, 'partition')}, {figure(written)} MB/s "
        f"in and {figure(needed.broker_out_mb_per_second)} MB/s out, before compression and replicas"
    )
    for judge in needed.judges:
        money = "no price set" if judge.usd_per_day is None else f"{usd(judge.usd_per_day)} per day"
        tokens = judge.input_tokens_per_second + judge.output_tokens_per_second
        yield (
            f"           judge {judge.judge}: {figure(judge.requests_per_second)} requests/s, "
            f"about {judge.in_flight:,} in flight, {figure(tokens)} tokens/s, {money}"
        )
    yield from (f"note       {shortage}" for shortage in _shortages(config, needed))


def _shortages(config: Config, needed: Capacity) -> Iterator[str]:
    settings = config.settings
    processes = next(stage.processes for stage in needed.stages if stage.stage == "evaluate")
    for need in needed.judges:
        judge = settings.judges[need.judge]
        if need.in_flight > judge.concurrency * processes:
            yield (
                f"judges.{need.judge}.concurrency is {judge.concurrency} in each of "
                f"{plural(processes, 'process', 'processes')}, but about {plural(need.in_flight, 'request')} will be "
                f"in flight: raise it to {math.ceil(need.in_flight / processes):,}"
            )
    for name, rate in _by_judge(config).items():
        in_flight = math.ceil(rate * JUDGE_SECONDS / processes)
        if in_flight > settings.evaluate.concurrency:
            yield (
                f"evaluate.concurrency is {settings.evaluate.concurrency} for each judge, but about "
                f"{plural(in_flight, 'evaluation')} by {name} will be in flight in each process: raise it"
            )
    if settings.log.kind == "kafka" and settings.log.kafka is not None:
        if settings.log.kafka.partitions < _most_of_a_stage(needed.stages):
            yield (
                f"log.kafka.partitions is {settings.log.kafka.partitions}, fewer than the processes that a "
                f"stage needs; the number is fixed once the topics exist: start with {needed.partitions}"
            )
    elif sum(stage.cores for stage in needed.stages) > 1.0:
        yield "this traffic needs several processes, and SQLite is for one machine: write log: {kind: kafka, ...}"
    for name, monitor in settings.monitors.items():
        if (hourly := monitor.alerts.turns_per_hour or math.inf) < 1800.0 * needed.turns_per_second:
            yield f"monitors.{name} counts with {figure(hourly / 3600.0)} turns/s here, by its alerts.turns_per_hour"
    yield from beyond_daily_budget(config, needed)


def _by_judge(config: Config) -> dict[str, float]:
    """Evaluations in a second by the judge, or the jury, that they name: each has a concurrency of its own."""
    traffic = config.settings.traffic
    uses = [use for use in _requests(expected_uses(config, traffic)) if not use.deferred] if traffic else []
    by_judge = group_by(uses, lambda use: config.evaluators[use.name].judge)
    return {judge: sum(use.per_second for use in of_judge) for judge, of_judge in by_judge.items() if judge is not None}


def beyond_daily_budget(config: Config, needed: Capacity) -> Iterator[str]:
    """The share of the cost that the budgets cover; nothing if that is all."""
    of_monitors = sum(daily_limit(monitor.budget) for monitor in config.settings.monitors.values())
    daily = min(daily_limit(config.settings.evaluate.budget), of_monitors)
    if needed.usd_per_day is not None and needed.usd_per_day > daily:
        share = daily / needed.usd_per_day
        yield f"the budget of {usd(daily)} per day covers {percent(share, 1)} of the cost; sampling rates will adapt"


def daily_limit(budget: BudgetSettings) -> float:
    """US dollars a day that a budget allows."""
    return min((each for each in (budget.usd_per_day, (budget.usd_per_hour or 0.0) * 24.0) if each), default=math.inf)
