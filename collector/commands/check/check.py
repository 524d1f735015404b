"""The plan of a configuration in words, as `evalstream check` prints it, with the hits that a prompt cache may have."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.alerting.rules.detectability import alert_lines
from collector.commands.check.capacity import capacity_lines, daily_limit
from collector.commands.check.deferred_plan import deferred_lines
from collector.config.attribute_names import receives_ready_made
from collector.config.configured import AuditSettings, Config, judges_of
from collector.config.endpoints import date_of_list
from collector.config.packs import pack_of, packs_of
from collector.config.settings import (
    BoostSettings,
    BudgetSettings,
    CascadeSettings,
    JudgeSettings,
    LinkSettings,
    LowScoreSettings,
    MonitorSettings,
    PlannedRate,
)
from collector.config.unused_keys import unused_notes
from collector.config.usual_addresses import address_notes
from collector.evaluate.references.subject import referenced_fields
from collector.export.segments import count_segments
from collector.golden.runner import case_notes, cases_for, read_cases
from collector.judging.open_judges import judges_in_use
from collector.judging.outage_reporter import endpoint_of, limits_by_endpoint
from collector.link.turn_router import EVERY
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.receive.access import OtlpSettings, is_loopback
from collector.records.audits import FEWEST_AUDITS
from collector.service.assembly_builder import why_all_are_wanted
from collector.service.kafka_settings import security_of
from collector.service.open_logs import names_of
from collector.service.plan_builder import build_unasked_plan, known_usd, reading_usd
from collector.wording import listed, percent, plural, usd
from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Scope
from evaluators.evaluator import Evaluator
from evaluators.turn.length import Length

_FEWEST = 1024
"""Tokens from which providers cache a prefix, as they say."""
Spent = Mapping[str, tuple[float, float]]
"""The cost of requests that had a price, in US dollars, and their number with those of skips, by evaluator."""


def cache_lines(monitor: MonitorSettings, config: Config) -> Iterator[str]:
    """The expected hits in the caches of a monitor's judges that begin with the subject, or have a price for it."""
    packed = {name for pack in packs_of(monitor, config.evaluators) for name in pack}
    apart = [config.evaluators[use.name] for use in monitor.uses if use.name not in packed]
    for name, judge in config.settings.judges.items():
        if judge.decides or judge.embeds or judge.kind != "openai":
            continue
        if not judge.subject_first and judge.usd_per_million_cached_input_tokens is None:
            continue
        for scope in ("turn", "conversation"):
            asking = [
                configured.evaluator
                for configured in apart
                if configured.evaluator.scope == scope
                and configured.judge
                and name in config.settings.members(configured.judge)
            ]
            if len(asking) > 1:
                yield f"cache of {name}: {_expected(asking, scope, judge)}"


def _expected(asking: Sequence[Evaluator[Any]], scope: str, judge: JudgeSettings) -> str:
    """Of several evaluators that show the judge the same fields, all but the first find the text in the cache."""
    hits = sum(count - 1 for count in Counter(evaluator.requires for evaluator in asking).values())
    evaluators = f"{plural(len(asking), 'evaluator')} of a {scope}"
    if not hits:
        return f"{evaluators}: no two show the same fields, so subject_first saves nothing"
    share = f"{hits} find the {scope} in the cache from {_FEWEST:,} tokens on"
    if not judge.subject_first:
        return f"{evaluators} find nothing in the cache: each begins with its instructions. With subject_first, {share}"
    price, cached = judge.usd_per_million_input_tokens, judge.usd_per_million_cached_input_tokens
    if cached is None:
        return f"{evaluators}: {share}; as usd_per_million_cached_input_tokens is not set, costs take the full price"
    instead = "" if price is None else f" instead of {price:g}"
    return f"{evaluators}: {share}, for {cached:g}{instead} USD per million tokens"


def report(config: Config) -> Iterator[str]:
    """The plan, line by line: where records are kept, what comes in, what is watched and judged, what goes out."""
    settings = config.settings
    yield f"{config.source}: valid"
    yield ""
    yield f"logs       {logs_text(config)}"
    yield from (f"receive    {line}" for line in receivers(config))
    yield f"assemble   a trace is assembled {_time(settings.assemble.idle_timeout)} after its last span"
    yield f"           {_link(settings.assemble.link)}"
    yield from (f"           {line}" for line in _attributes(settings.assemble.declared_attributes))
    yield from (f"           {line}" for line in _keep(config))
    yield from _judges(config)
    yield from (f"jury       {name}: {jury.combine} of {listed(jury.judges)}" for name, jury in settings.juries.items())
    yield from (f"cascade    {name}: {_cascade(cascade)}" for name, cascade in settings.cascades.items())
    for name, monitor in settings.monitors.items():
        yield ""
        yield from _monitor(name, monitor, config)
    yield from (f"all        {line}" for line in _budget(settings.evaluate.budget, settings.monitors.values(), config))
    yield ""
    yield from (f"export     {name}{_segments(config) if name == 'prometheus' else ''}" for name in settings.export)
    if settings.page is not None:
        note = "" if settings.page.show_text else "; texts are hidden"
        yield f"page       http://{settings.page.host}:{settings.page.port}/{note}"
    yield ""
    yield from alert_lines(config)
    yield from capacity_lines(config)
    yield from _golden(config)
    yield from (f"note       {note}" for note in (*address_notes(config), *unused_notes(config)))
    yield from _warnings(config)


def logs_text(config: Config, *, brief: bool = False) -> str:
    """The place of the records, and their retention; `brief` without the names of the topics."""
    settings, log = config.settings, config.settings.log
    match log.kind:
        case "memory":
            return "in memory; lost when the process ends"
        case "sqlite":
            return f"SQLite, {log.path}; retention: {_time(log.retention)} after last use"
        case "kafka":
            assert log.kafka is not None
            names = names_of(page=settings.page is not None, **config.optional_logs)
            prefix = log.kafka.prefix
            topics = f"{prefix}.*" if brief else ", ".join(f"{prefix}.{name}" for name in names)
            partitions = plural(log.kafka.partitions, "partition")
            secured = _secured(log.kafka.security)
            moving = "" if log.kafka.group_instance_id else "; no group_instance_id: partitions move at each restart"
            return f"Kafka at {', '.join(log.kafka.bootstrap_servers)}{secured}: {topics}, {partitions}{moving}"


def _secured(security: KafkaSecuritySettings | None) -> str:
    """How connections are secured, without secrets."""
    if security is None:
        return ""
    by = f", {security.mechanism} as {security.username or (security.oauth and security.oauth.client_id)}"
    certificate = f", client certificate {security.certificate}" if security.certificate else ""
    return f" ({security.protocol}{by if security.mechanism else ''}{certificate})"


def receivers(config: Config) -> Iterator[str]:
    """Return what comes in, with the access that senders need."""
    receive = config.settings.receive
    http, grpc = ("HTTP", "/v1/traces, /v1/logs", receive.otlp_http), ("gRPC", "traces, logs", receive.otlp_grpc)
    for protocol, what, otlp in (http, grpc):
        if otlp is not None:
            scheme = "https" if otlp.tls else "http"
            yield f"OTLP/{protocol} on {scheme}://{otlp.host}:{otlp.port} ({what}), {_access(otlp)}"
    for source in receive.kafka:
        turns = [f"{', '.join(source.turns)} (ready-made turns)"] if source.turns else []
        secured = _secured(security_of(source, config.settings.log))
        references = [f"{', '.join(source.references)} (references)"] if source.references else []
        topics = ", ".join([*source.traces, *source.logs, *turns, *references])
        yield f"Kafka at {', '.join(source.bootstrap_servers)}{secured}: {topics}"
    if receive.files:
        yield f"files: {', '.join(receive.files)}"
    trust = receive.trust_tracestate
    if senders := {"always": ["any sender"], "never": []}[trust] if isinstance(trust, str) else trust:
        yield f"the tracestate of {listed(senders)} is believed about earlier sampling (receive.trust_tracestate)"


def _link(link: LinkSettings | None) -> str:
    if link is None:
        return "a trace without a conversation id is its own conversation (assemble.link would link traces by history)"
    services = "any service" if EVERY in link.services else listed(link.services)
    apart = f"at most {_time(link.idle_timeout)} apart"
    return f"traces of {services} without a conversation id are linked by history, {apart}"


def _attributes(declared: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, keys in declared.items():
        source = "" if list(keys) == [name] else f" from {' or '.join(keys)}"
        yield f"attribute {name}{source}, nearest to the model's span"


def _keep(config: Config) -> Iterator[str]:
    """The effect of `keep: wanted` on this plan."""
    if config.settings.assemble.keep == "all":
        return
    if (reason := why_all_are_wanted(build_unasked_plan(config))) is not None:
        yield f"every turn is assembled in full (assemble.keep), because {reason}"
    else:
        yield "keep: wanted: turns that no sample selects are stored without content, and most are not assembled"


def _segments(config: Config) -> str:
    if not config.dimensions:
        return ""
    parts = [
        f"{dimension.attribute} "
        f"({f'{dimension.most} most frequent values' if dimension.most else listed(dimension.values)}, else other)"
        for dimension in config.dimensions
    ]
    count = count_segments(config.dimensions)
    return f": segments by {' and '.join(parts)}: at most {plural(count, 'segment')} at a time for each evaluator"


def _access(settings: OtlpSettings) -> str:
    needed = ["a bearer token"] if settings.auth else []
    if settings.tls and settings.tls.client_ca:
        needed.append("a client certificate")
    return " and ".join(needed) + " required" if needed else "no authentication"


def _judges(config: Config) -> Iterator[str]:
    """Every judge, and how its requests are limited and repeated, if an evaluator asks it."""
    judges, names = config.settings.judges, judges_in_use(config)
    limits = limits_by_endpoint(judges[name] for name in names)
    for name, judge in judges.items():
        yield f"judge      {name}: {judge_text(judge)}"
        if name in names:
            text = f"{limits[endpoint_of(judge)].text}, {judge.timeout:g} s each, repeated for {judge.deadline:g} s"
            then = "evaluations fail" if judge.breaker.when_open == "shed" else "requests wait"
            yield f"           {text}; after {judge.breaker.failures} failures in a row {then}"


def judge_text(judge: JudgeSettings) -> str:
    """A judge in words: its model, its address and the source of its prices."""
    price = "" if judge.usd_per_million_input_tokens is not None else "; cost unknown (no price set, no list price)"
    if judge.at_list_prices:
        price = f"; cost by list prices of {date_of_list()}"
    if judge.kind == "openai" and not _has_key(judge) and not is_loopback(urlsplit(judge.base_url).hostname or ""):
        price += "; no api_key"
    where = f"at {judge.base_url}" if judge.kind == "openai" else f"by {judge.kind}"
    if judge.api != "chat":
        where += f" (api {judge.api}: decides, cannot write)" if judge.decides else f" (api {judge.api})"
    return f"{judge.model} {where}{price}"


def _cascade(cascade: CascadeSettings) -> str:
    rest = f"and on {_share(cascade.share)} of the rest" if cascade.share else "and on nothing else"
    mean = "which correct the mean" if cascade.share else "so the errors of its mean stay unknown"
    asks = f"{cascade.first}, then {cascade.then} where its doubt is above {cascade.doubt:g} {rest}, {mean}"
    return f"{asks}; calls and prices below count both judges"


def _has_key(judge: JudgeSettings) -> bool:
    written = judge.api_key.get_secret_value() not in ("", "none")
    return written or judge.api_key_file is not None or bool(judge.headers or judge.header_files)


def _monitor(name: str, monitor: MonitorSettings, config: Config) -> Iterator[str]:
    yield f"monitor    {name}: {matched(monitor)}; {sampled(monitor)}"
    for use in monitor.uses:
        each, configured = use.name, config.evaluators[use.name]
        evaluator = configured.evaluator
        by = f"by {configured.judge}" if configured.judge else "without a judge"
        side = "less" if evaluator.direction == "lower_is_better" else "more"
        threshold = "" if evaluator.threshold is None else f", passes at {evaluator.threshold:g} or {side}"
        when = "each turn"
        if evaluator.scope == "conversation":
            when = f"each conversation, {_time(monitor.idle_timeout)} after its last turn"
        if monitor.references is not None and referenced_fields(evaluator):
            when += f" (waits up to {_time(monitor.references.wait)} for references)"
        own = f", its own sample: {_share(use.sample)}" if use.sample is not None else ""
        kind = f"{evaluator.kind} in {evaluator.unit}" if isinstance(evaluator, Length) else evaluator.kind
        yield f"           - {each} ({kind}): {when}, {by}{threshold}{own}"
        if evaluator.label_names:
            yield f"             labels: {', '.join(_labels(evaluator))}"
        if configured.audit is not None:
            yield f"             {_audit(configured.audit, monitor.rate_of(use))}"
        if evaluator.cost_note:
            yield f"             {evaluator.cost_note}"
        if isinstance(evaluator, ReadingSettings) and evaluator.reads is not None:
            dearest = reading_usd(config, each)
            cost = "" if dearest is None else f": ≈ {usd(dearest)} more at most"
            requests = (
                f"up to {plural(evaluator.reads, 'more request')}, with {evaluator.most_read:,} characters in all"
            )
            yield f"             a run too long for one question takes {requests}{cost}"
    more = [*_packs(monitor, config), *cache_lines(monitor, config), *deferred_lines(name, config)]
    more += [*boosts(monitor.boost, config), *_budget(monitor.budget, [monitor], config)]
    yield from (f"           {line}" for line in more)
    calls, of_conversations = judge_calls([monitor], config)
    yield f"           ≈ {calls} per 1,000 matching turns{of_conversations}"


def _audit(audit: AuditSettings, rate: float) -> str:
    """The auditing judge, and how many matching turns bring the audits that a corrected mean needs."""
    fewest = FEWEST_AUDITS / (rate * audit.share)
    return (
        f"audit: {audit.judge or audit.evaluator} judges {_share(audit.share)} again; these audits correct the mean "
        f"that alerts use, first after about {fewest:,.0f} conversations; four times as many audits halve its error"
    )


def _packs(monitor: MonitorSettings, config: Config) -> Iterator[str]:
    """The packs, with the requests that they take for a short case, and would take apart."""
    for pack in packs_of(monitor, config.evaluators):
        rounds = [config.evaluators[name].evaluator.rounds for name in pack]
        scope = config.evaluators[pack[0]].evaluator.scope
        requests = f"{plural(max(rounds), 'request')} per {scope} instead of {sum(rounds)}"
        yield f"pack: {listed(pack)} ask together: {requests}"


def judge_calls(monitors: Collection[MonitorSettings], config: Config) -> tuple[str, str]:
    """The requests to judges for 1,000 matching turns, and what each conversation adds: it has an unknown number of
    turns.
    """
    of_turns = sum(calls for _, calls in asking(monitors, config, "turn").values())
    of_conversations = sum(calls for _, calls in asking(monitors, config, "conversation").values())
    number = f"{of_conversations:.2g}"
    calls = f"{number} call and its cost" if number == "1" else f"{number} calls and their cost"
    more = f"; each conversation adds ≈ {calls}" if of_conversations else ""
    return plural(round(1000 * of_turns), "judge call"), more


def asking(
    monitors: Collection[MonitorSettings], config: Config, scope: Scope
) -> dict[tuple[str, ...], tuple[float, float]]:
    """The share of the subjects that evaluators judge, and the requests for a subject, by those that ask together.

    Texts are short here, and judges answer as they are asked. Several monitors ask for the same verdict once, at
    the highest of their rates: their draws are nested.
    """
    rates: dict[tuple[str, ...], tuple[float, float]] = {}
    for monitor, use in ((each, use) for each in monitors for use in each.uses):
        configured = config.evaluators[use.name]
        if not judges_of(use.name, config.evaluators) or configured.evaluator.scope != scope:
            continue
        rate = monitor.rate_of(use)
        members = config.settings.members(configured.judge) if configured.judge else ()
        calls = rate * configured.evaluator.rounds * len(members)
        if configured.audit is not None:
            auditor = config.evaluators[configured.audit.evaluator or use.name].evaluator
            members = config.settings.members(judges_of(use.name, config.evaluators)[-1])
            calls += rate * configured.audit.share * auditor.rounds * len(members)
        together = tuple(pack_of(use.name, monitor, config.evaluators)) or (use.name,)
        rates[together] = max((rate, calls), rates.get(together, (0.0, 0.0)))
    return rates


def usd_per_1000(config: Config, spent: Spent, monitors: Collection[MonitorSettings] | None = None) -> float | None:
    """The cost of 1,000 matching turns; None: a judge has no price. A conversation has an unknown number of turns.

    Requests cost what those of their evaluator so far cost; before the first, what is guessed of an evaluation.
    """
    total = 0.0
    for names, (rate, calls) in asking(monitors or config.settings.monitors.values(), config, "turn").items():
        known, past = [known_usd(config, name) for name in names], [spent[name] for name in names if name in spent]
        if None in known:
            return None
        paid, made = map(sum, zip(*past, strict=True)) if past else (0.0, 0.0)
        total += calls * paid / made if made else rate * sum(filter(None, known))
    return 1000.0 * total


def samples(monitor: MonitorSettings) -> str:
    """The share of its conversations that each evaluator of a monitor judges."""
    by_share: dict[str, list[str]] = {}
    for use in monitor.uses:
        share = sampled(monitor) if use.sample is None else _of_conversations(use.sample)
        by_share.setdefault(share, []).append(use.name)
    return "judged " + ", ".join(f"by {listed(names)} in {share}" for share, names in by_share.items())


def sampled(monitor: MonitorSettings) -> str:
    """The share of a monitor's conversations that is judged."""
    rate = monitor.rate
    if isinstance(rate, PlannedRate):
        error = f"a standard error of {rate.standard_error:g}"
        return f"as many conversations as a day's mean needs for {error}; the figures below suppose all conversations"
    return _of_conversations(rate)


def _of_conversations(rate: float) -> str:
    return "all conversations" if rate == 1.0 else f"{_share(rate)} of conversations"


def _share(rate: float) -> str:
    return "all" if rate == 1.0 else f"{rate * 100:.4g} %"


def _labels(evaluator: Evaluator[Any]) -> Iterator[str]:
    """The labels, each with whether it passes, if there is no threshold."""
    verdicts: Mapping[str, bool | None] = evaluator.label_verdicts if evaluator.threshold is None else {}
    for name in evaluator.label_names:
        yield name + {True: " (passes)", False: " (fails)", None: ""}[verdicts.get(name)]


def _bad_score(low: LowScoreSettings, config: Config) -> str:
    if config.evaluators[low.evaluator].evaluator.direction == "lower_is_better":
        return f"{low.evaluator} above {round(1.0 - low.below, 9):g}, as lower is better"
    return f"{low.evaluator} below {low.below:g}"


def boosts(boost: BoostSettings, config: Config) -> Iterator[str]:
    """The subjects that are judged more often; judge calls and costs here leave them out."""
    factors = {"errors": boost.error, "negative feedback": boost.negative_feedback}
    factors[f"slower than {_time(boost.slow_after)}"] = boost.slow
    factors |= {_bad_score(settings, config): settings.factor for settings in boost.low_score}
    factors |= {f"{settings.field} {' or '.join(settings.values)}": settings.factor for settings in boost.matching}
    if named := [f"{reason} × {factor:g}" for reason, factor in factors.items() if factor > 1.0]:
        apart = "judge calls and costs here do not include this; means are weighted"
        yield f"sampled more often: {', '.join(named)} ({apart})"


def _budget(budget: BudgetSettings, monitors: Collection[MonitorSettings], config: Config) -> Iterator[str]:
    amounts = ((budget.usd_per_hour, "hour"), (budget.usd_per_day, "day"))
    named = [f"{usd(amount)} per {period}" for amount, period in amounts if amount is not None]
    if named:
        cap = f"at {budget.hard_cap_factor:g} × the budget judges are no longer asked"
        yield f"budget: {listed(named)}; sampling rates adapt to it, {cap}"
        yield from beyond_budget(budget, monitors, config, {})


def beyond_budget(
    budget: BudgetSettings, monitors: Collection[MonitorSettings], config: Config, spent: Spent
) -> Iterator[str]:
    """The share that a budget pays for of the evaluations that the monitors expect; nothing if that is all."""
    hourly = ((monitor.alerts.turns_per_hour, usd_per_1000(config, spent, [monitor])) for monitor in monitors)
    cost = sum((turns or 0.0) * (of_1000 or 0.0) / 1000.0 for turns, of_1000 in hourly)
    if cost > (paid := daily_limit(budget) / 24.0):
        covers = percent(paid / cost, 1)
        yield f"at alerts.turns_per_hour, all would cost {usd(cost)} an hour; the budget pays for {covers}"


def _golden(config: Config) -> Iterator[str]:
    if (golden := config.settings.golden) is not None:
        cases = read_cases(Path(golden.path))
        when = f"every {_time(golden.interval)}, whenever a judge or evaluator changes, and when scores seem to fall"
        when += f"; between runs, single cases ({golden.share:.0%} of the judge's calls)" if golden.share else ""
        used = {use.name for monitor in config.settings.monitors.values() for use in monitor.uses}
        asking = {name: each.evaluator for name, each in config.evaluators.items() if each.judge and name in used}
        number = sum(len(cases_for(evaluator, cases)) for evaluator in asking.values())
        yield f"golden     {plural(len(cases), 'frozen case')}: {plural(number, 'evaluation')} by judges {when}"
        yield from (f"note       {note}" for note in case_notes(cases, asking, config.evaluators))


def matched(monitor: MonitorSettings) -> str:
    """The turns that a monitor watches."""
    subjects = "runs of agents" if monitor.subjects == "agent_runs" else "turns"
    if not monitor.match:
        return "all runs of agents inside turns" if monitor.subjects == "agent_runs" else "every turn"
    return f"{subjects} whose " + " and ".join(
        f"{field} is {' or '.join([values] if isinstance(values, str) else values)}"
        for field, values in monitor.match.items()
    )


def _warnings(config: Config) -> Iterator[str]:
    silent = [name for name, used in config.evaluators.items() if getattr(used.evaluator, "reason", "") == "none"]
    if silent:
        yield (
            f"note       {listed(silent)}: with `reason: none`, the judge's verdict is not compared with one that "
            "stands in the judged text; leave `reason` out where texts may be hostile"
        )
    for name, monitor in config.settings.monitors.items():
        needs = {use.name: referenced_fields(config.evaluators[use.name].evaluator) for use in monitor.uses}
        if monitor.references is not None and not any(needs.values()):
            yield f"note       no evaluator of monitor {name} needs references: monitors.{name}.references does nothing"
        if monitor.references is None and not receives_ready_made(config):
            yield from (_unreferenced(name, each, fields) for each, fields in needs.items() if fields)


def _unreferenced(monitor: str, evaluator: str, fields: Collection[str]) -> str:
    needed = listed(sorted(field.removeprefix("attributes.") for field in fields))
    return (
        f"note       {evaluator} of monitor {monitor} needs {needed}, which traces lack, so it skips everything; "
        f"write monitors.{monitor}.references: {{wait: 1h}} and send references"
    )


def _time(seconds: float) -> str:
    if seconds >= 86400 and seconds % 86400 == 0:
        return plural(round(seconds / 86400), "day")
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"
