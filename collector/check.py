"""What a configuration means, in words: the plan that `evalstream check` prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collector.capacity import capacity_lines
from collector.config.loading import Config
from collector.config.settings import (
    BoostSettings,
    BudgetSettings,
    JudgeSettings,
    LinkSettings,
    LogSettings,
    MonitorSettings,
)
from collector.golden.cases import read_cases
from collector.link.outlet import EVERY
from collector.opening import names_of
from collector.receive.settings import OtlpSettings
from collector.rules.sight import alert_lines


def report(config: Config) -> Iterator[str]:
    """The plan, line by line: where records are kept, what comes in, what is watched and judged, what goes out."""
    settings = config.settings
    yield f"{config.source} is right."
    yield ""
    yield f"logs       {_logs(settings.log, linking=settings.assemble.link is not None)}"
    for line in _receivers(config):
        yield f"receive    {line}"
    yield f"assemble   a trace is read when nothing of it came for {_time(settings.assemble.quiet)}"
    yield f"           {_link(settings.assemble.link)}"
    for name, judge in settings.judges.items():
        yield f"judge      {name}: {_judge(judge)}"
    for name, jury in settings.juries.items():
        yield f"jury       {name}: the {jury.combine} of {', '.join(jury.judges)}"
    for name, monitor in settings.monitors.items():
        yield ""
        yield from _monitor(name, monitor, config)
    yield from (f"all        {line}" for line in _budget(settings.evaluate.budget))
    yield ""
    for name in settings.export:
        yield f"export     {name}"
    if settings.page is not None:
        shown = "" if settings.page.text else "; texts are hidden"
        yield f"page       http://{settings.page.host}:{settings.page.port}/{shown}"
    yield ""
    yield from alert_lines(config)
    yield from capacity_lines(config)
    yield from _golden(config)
    yield from _warnings(config)


def _logs(log: LogSettings, *, linking: bool) -> str:
    match log.kind:
        case "memory":
            return "in memory: gone when the process ends"
        case "sqlite":
            return f"SQLite, {log.path}; records are kept {_time(log.retention)} beyond need"
        case "kafka":
            assert log.kafka is not None
            topics = ", ".join(f"{log.kafka.prefix}.{name}" for name in names_of(linking=linking))
            return f"Kafka at {', '.join(log.kafka.bootstrap_servers)}: {topics}, {log.kafka.partitions} partitions"


def _receivers(config: Config) -> Iterator[str]:
    receive = config.settings.receive
    if receive.otlp_http is not None:
        http = receive.otlp_http
        scheme = "https" if http.tls else "http"
        yield f"OTLP/HTTP on {scheme}://{http.host}:{http.port} (/v1/traces, /v1/logs), {_access(http)}"
    if receive.otlp_grpc is not None:
        grpc = receive.otlp_grpc
        scheme = "https" if grpc.tls else "http"
        yield f"OTLP/gRPC on {scheme}://{grpc.host}:{grpc.port} (traces, logs), {_access(grpc)}"
    for source in receive.kafka:
        turns = [f"{', '.join(source.turns)} (ready-made turns)"] if source.turns else []
        yield f"Kafka at {', '.join(source.bootstrap_servers)}: {', '.join([*source.traces, *source.logs, *turns])}"
    if receive.files:
        yield f"files: {', '.join(receive.files)}"


def _link(link: LinkSettings | None) -> str:
    if link is None:
        return "one that names no conversation is one of its own (assemble.link would tie them by their histories)"
    whose = "any service" if EVERY in link.services else " and ".join(link.services)
    return f"those of {whose} that name no conversation are tied by their histories, within {_time(link.window)}"


def _access(settings: OtlpSettings) -> str:
    needed = ["a bearer token"] if settings.auth else []
    if settings.tls and settings.tls.client_ca:
        needed.append("a client certificate")
    return " and ".join(needed) + " required" if needed else "open to who reaches it"


def _judge(judge: JudgeSettings) -> str:
    priced = judge.usd_per_million_input_tokens is not None
    price = "" if priced else "; no price given, so cost is not counted"
    return f"{judge.model} at {judge.base_url}, at most {judge.concurrency} requests at once{price}"


def _monitor(name: str, monitor: MonitorSettings, config: Config) -> Iterator[str]:
    yield f"monitor    {name}: {_matched(monitor)}; {monitor.sample:.4g} of the conversations"
    asked = 0
    for use in monitor.uses:
        each, configured = use.name, config.evaluators[use.name]
        evaluator = configured.evaluator
        by = f"by {configured.judge}" if configured.judge else "without a judge"
        threshold = "" if evaluator.threshold is None else f", passes at {evaluator.threshold:g}"
        when = (
            "each turn"
            if evaluator.scope == "turn"
            else f"each conversation, {_time(monitor.idle)} after its last turn"
        )
        own = f", at a rate of its own: {use.sample:.4g}" if use.sample is not None else ""
        yield f"           - {each} ({evaluator.kind}): {when}, {by}{threshold}{own}"
        asked += configured.judge is not None and evaluator.scope == "turn"
    yield from (f"           {line}" for line in (*_boosts(monitor.boost), *_budget(monitor.budget)))
    yield f"           1,000 matching turns lead to about {1000 * monitor.sample * asked:.0f} judged turns' calls"


def _boosts(boost: BoostSettings) -> Iterator[str]:
    factors = {"errors": boost.error, "what was disliked": boost.negative_feedback}
    factors[f"what took over {_time(boost.slow_after)}"] = boost.slow
    factors |= {f"{each.evaluator} below {each.below:g}": each.factor for each in boost.low_score}
    factors |= {f"{each.field} {' or '.join(each.values)}": each.factor for each in boost.having}
    named = [f"{what} {factor:g} times" for what, factor in factors.items() if factor > 1.0]
    if named:
        yield f"judged more often: {', '.join(named)}; weighted, so means stay right"


def _budget(budget: BudgetSettings) -> Iterator[str]:
    amounts = [(budget.usd_per_hour, "an hour"), (budget.usd_per_day, "a day")]
    named = [f"{usd:g} USD {period}" for usd, period in amounts if usd is not None]
    if named:
        yield f"budget: {' and '.join(named)}; rates follow it, nothing is asked at {budget.hard_cap:g} times as much"


def _golden(config: Config) -> Iterator[str]:
    golden = config.settings.golden
    if golden is not None:
        count = len(read_cases(Path(golden.path)))
        when = f"every {_time(golden.every)} and when a judge or evaluator changes"
        yield f"golden     {count} frozen cases, judged again {when}"


def _matched(monitor: MonitorSettings) -> str:
    if not monitor.match:
        return "every turn"
    return "turns whose " + " and ".join(
        f"{field} is {' or '.join([values] if isinstance(values, str) else values)}"
        for field, values in monitor.match.items()
    )


def _warnings(config: Config) -> Iterator[str]:
    used = {use.name for monitor in config.settings.monitors.values() for use in monitor.uses}
    for name in sorted(set(config.evaluators) - used):
        yield f"note       evaluator {name} is used by no monitor, so it never runs"


def _time(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"
