"""The report of an audit: what adds up, and a sentence for each thing that does not."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from collector.commands.audit.positions import LogContent, Reading
from collector.commands.audit.traces import TraceBalance
from collector.evaluate.audit import Balance
from collector.export.stage import group_of
from collector.records.json import fields_of, indented_json
from collector.wording import listed, plural

_EMPTY = "Nothing to compare: no span and no turn. Run this in the folder of the service: log.path counts from there."

_NOT_DRAINED = "It adds up, but is not drained: stop the senders, wait assemble.idle_timeout, then stop the service:"

_PROMETHEUS = group_of("prometheus")
"""It waits for a first scrape before it counts. A stop in this time loses nothing: the next start counts the rest."""

_AWAITS_SCRAPE = " (it counts them after a scrape or a minute; if it stops before, after its next start)"

_OTHER = "by another configuration or version of the evaluator"

_REMEDY = (
    "as evaluate did not find its earlier results. Metrics, alerts and exports count all: of exported scores, sum"
    " only each subject's newest, and restore or copy logs only together with their positions"
)


@dataclass(slots=True)
class Audit:
    """The figures of an audit."""

    other: str = ""
    """The configuration by which evaluations are compared, if it is not the file's."""
    contents: list[LogContent] = field(default_factory=list[LogContent])
    readings: list[Reading] = field(default_factory=list[Reading])
    exports: list[Reading] = field(default_factory=list[Reading])
    balances: list[Balance] = field(default_factory=list[Balance])
    traces: TraceBalance = field(default_factory=TraceBalance)
    turns: int = 0
    repeated: int = 0
    """Of them, those that were in the log before."""
    lacks_turns: bool = False
    """Whether the turns log lacks turns that were judged: retention or somebody deleted them, or they were copied."""
    unreadable_turns: int = 0
    """Records of the turns log that cannot be read and have no dead letter."""
    unreadable_evaluations: int = 0
    void: int = 0
    dead_letters: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """By stage and state."""


def as_text(audit: Audit, *, drained: bool) -> tuple[list[str], str]:
    """The problems, and the report with them."""
    problems = list(_problems(audit, drained=drained))
    lines = [*_lines(audit), ""]
    if problems:
        wrong = f"{plural(len(problems), 'thing')} {'does' if len(problems) == 1 else 'do'} not add up:"
        is_whole = not any(_problems(audit, drained=False))
        lines += [_NOT_DRAINED if is_whole else wrong, *(f"  - {problem}" for problem in problems)]
    else:
        left_out = f", but for the {plural(count, 'turn')} not compared" if (count := audit.traces.not_compared) else ""
        is_empty = not any(log.records for log in audit.contents if log.name != "evaluations")
        lines += [_EMPTY if is_empty else f"It adds up{left_out}."]
    return problems, "\n".join(lines)


def as_json(audit: Audit, problems: Sequence[str]) -> str:
    """The figures and the problems as JSON."""
    plain: dict[str, Any] = {
        "adds_up": not problems, "problems": problems,
        "logs": {
            content.name: {"records": content.records, "gaps": [list(gap) for gap in content.gaps]}
            for content in audit.contents
        },
        "consumers": [_reading(reading) for reading in audit.readings],
        "traces": {**asdict(audit.traces), "without_turns": audit.traces.without_turns},
        **fields_of(audit, "turns", "repeated", "unreadable_turns", "unreadable_evaluations", "void"),
        "evaluations": [asdict(balance) for balance in audit.balances],
        "exporters": [_reading(reading) for reading in audit.exports],
        "dead_letters": [
            {"stage": stage, "state": state, "number": number}
            for (stage, state), number in sorted(audit.dead_letters.items())
        ],
    }  # fmt: skip
    return indented_json(plain)


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "group": reading.group, "log": reading.log, "read": reading.read, "in_flight": reading.behind,
        "lost": [list(stretch) for stretch in reading.lost],
        "beyond_end": [list(stretch) for stretch in reading.beyond],
    }  # fmt: skip


def _lines(audit: Audit) -> Iterator[str]:
    if audit.other:
        yield f"compared   by {audit.other}, which differs from this file; only the exporters are this file's"
    records = {content.name: content.records for content in audit.contents}
    unread = "; assemble has not read all of their spans yet" if audit.readings[0].behind else ""
    yield f"traces     {plural(audit.traces.seen, 'trace')}{_traces(audit.traces)}{unread}"
    again = f" ({plural(audit.repeated, 'more record')} of the same turns)" if audit.repeated else ""
    turns = plural(audit.turns - audit.repeated, "turn")
    yield f"assembled  {turns} in the turns log{again}{_behind(audit.readings[-1])}"
    others = f"{'of deleted or copied turns, or ' if audit.lacks_turns else ''}by an earlier configuration"
    for balance in audit.balances:
        yield f"due        {balance.evaluator} of {balance.monitor}: {balance.due:,}{_balance(balance, others)}"
    for export in audit.exports:
        name, number = export.group.removeprefix("export."), plural(export.read, "evaluation")
        scrape = _AWAITS_SCRAPE if export.behind and export.group == _PROMETHEUS else ""
        yield f"exported   {name}: {number} read{_behind(export)}{scrape}"
    for reading in audit.readings:
        if reading.log == "judged_spans":
            yield f"spans      {plural(records[reading.log], 'record')} of spans and their scores{_behind(reading)}"
    if audit.dead_letters:
        letters = [f"{number:,} of {stage} ({state})" for (stage, state), number in sorted(audit.dead_letters.items())]
        yield f"letters    {listed(letters)}"
    if audit.void:
        yield f"void       {plural(audit.void, 'record')} by processes that no longer owned the partition (not counted)"


def _traces(traces: TraceBalance) -> str:
    parts = [f"{traces.with_turns:,} with turns", f"{traces.without_turns:,} without a turn"]
    earlier = f"; {plural(traces.not_compared, 'turn')} not compared, as `assemble` or `dialects` changed since"
    whole = listed([*parts, f"{traces.open:,} open {_open(traces)}"] if traces.open else parts)
    return f" = {whole}" + (earlier if traces.not_compared else "")


def _open(traces: TraceBalance) -> str:
    where = listed([f"spans[{partition}] from offset {low}" for partition, low in traces.open_from.items()])
    more = "" if traces.open <= len(traces.open_examples) else "for example "
    return f"in {where} ({more}{listed(traces.open_examples)})"


def _behind(reading: Reading) -> str:
    return f"; {reading.behind:,} not read by {reading.group} yet" if reading.behind else ""


def _balance(balance: Balance, others: str) -> str:
    """The outcomes of evaluations that are due, then those that are not due; `others` says why the log has these."""
    parts = [f"{number:,} {outcome}" for outcome, number in sorted(balance.outcomes.items())]
    for name, number in (
        ("replaced, as the conversation went on", balance.replaced),
        ("in flight", balance.in_flight),
        (f"made {_OTHER} (not compared)", balance.made_earlier),
        ("due before the first evaluation by this version (not compared)", balance.not_compared),
        ("MISSING", balance.missing),
    ):
        parts += [f"{number:,} {name}"] if number else []
    more = max(0, balance.earlier - balance.made_earlier)
    notes = (
        (balance.retried, "made again after a failure or skip"),
        (more, f"more of the same subjects {_OTHER}"),
        (balance.others, f"more evaluation{'s' * (balance.others != 1)} {others}"),
        (balance.later, "made after the audit began"),
        (balance.sampled_out, "more sampled out, so never made (evalstream_evaluations_due_total counts them)"),
    )
    whole = f" = {listed(parts)}" if parts else ""
    return "; ".join([whole, *(f"{number:,} {what}" for number, what in notes if number)])


def _problems(audit: Audit, *, drained: bool) -> Iterator[str]:
    for content in audit.contents:
        yield from _gaps(content)
    for reading in (*audit.readings, *audit.exports):
        yield from _losses(reading)
        if drained and reading.behind and reading.group != _PROMETHEUS:
            behind = f"{plural(reading.behind, 'record')} of the {reading.log} log {_are(reading.behind)}"
            yield f"{behind} not read by {reading.group}"
    yield from _lost_traces(audit.traces, drained=drained)
    for balance in audit.balances:
        yield from _missing(balance, drained=drained)
    if bad := audit.unreadable_turns:
        yield f"{plural(bad, 'record')} of the turns log cannot be read, and became no dead letter"


def _gaps(content: LogContent) -> Iterator[str]:
    for partition, first, end in content.gaps:
        gone = f"{plural(end - first, 'record')} (offsets {first} to {end - 1}) {_are(end - first)} gone"
        place = f"{content.name}[{partition}]"
        yield f"{place}: {gone} from the middle of the log; somebody has deleted what retention would not"


def _losses(reading: Reading) -> Iterator[str]:
    for partition, at, start in reading.lost:
        number = f"{plural(start - at, 'record')} (offsets {at} to {start - 1})"
        yield (
            f"{reading.log}[{partition}]: {number} had been deleted before {reading.group} read that far;"
            " raise the retention of the log"
        )
    for partition, end, at in reading.beyond:
        yield (
            f"{reading.log}[{partition}] ends at {end}, but {reading.group} has read up to {at}:"
            " records were lost, or the log was made again under its name"
        )


def _lost_traces(traces: TraceBalance, *, drained: bool) -> Iterator[str]:
    if traces.missing:
        yield (
            f"{plural(traces.missing, 'turn')} of accepted traces {_are(traces.missing)} in no log: of "
            f"{listed(traces.examples)}. Somebody deleted the turns, or set the position of assemble forward, or an "
            "earlier release of evalstream read the traces"
        )
    if traces.passed_over:
        yield (
            f"assemble passed over {plural(traces.passed_over, 'accepted trace')}, "
            f"as somebody set its position forward: {listed(traces.passed_examples)}"
        )
    if drained and traces.open:
        yield f"{plural(traces.open, 'accepted trace')} {_are(traces.open)} still open {_open(traces)}"


def _missing(balance: Balance, *, drained: bool) -> Iterator[str]:
    of = f"by {balance.evaluator} of {balance.monitor}"
    if balance.missing:
        where = listed([f"turns[{evaluation.partition}] offset {evaluation.offset}" for evaluation in balance.examples])
        more = "" if balance.missing <= len(balance.examples) else ", for example"
        number = plural(balance.missing, "evaluation")
        yield f"{number} {of} became due at{more} {where}, without an outcome"
    if balance.repeated:
        are = f"{plural(balance.repeated, 'evaluation')} {of} {_are(balance.repeated)}"
        yield f"{are} in the evaluations log more than once, {_REMEDY}"
    if balance.scored_twice:
        got = f"{plural(balance.scored_twice, 'subject')} got several scores {of} in one version"
        yield f"{got}, under different ids (for example {balance.scored_twice_example}), {_REMEDY}"
    if drained and balance.in_flight:
        yield f"{plural(balance.in_flight, 'evaluation')} {of} {_are(balance.in_flight)} still in flight"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
