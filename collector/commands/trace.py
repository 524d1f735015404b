"""`evalstream explain`: every step of one evaluation, from the spans that came in to the exporters that took it.

Of a trace or a turn: how it was read, and what each monitor's evaluators made of it, or why nothing. Everything is read
from the logs of a configuration, beside a running service or without one. Judged text is in the judge's reason alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isclose
from typing import Any, cast

from collector.assemble.collect_trace import TracePiece
from collector.assemble.explain import ExplainedTrace, explain, format_lines
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import examine
from collector.commands.check.traffic import running_problems
from collector.config.configured import Config, judges_of
from collector.errors import DONE, EvalstreamError
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.failures import remedy_of
from collector.evaluate.partition_state import PartitionState, PlanInForce
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.configurations import UNNUMBERED, Configurations
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.past_plans import switches_of
from collector.evaluate.recovery.replay_point import ReplayPoint, metadata_of
from collector.evaluate.references.subject import awaited_fields, referenced_fields
from collector.evaluate.retry.past_jobs import control_records_in
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.evaluate.sampling.draw_key import PUBLIC, DrawKey, draw_key
from collector.evaluate.stage import GROUP
from collector.export.stage import group_of
from collector.logs.log import Committed, Log, StoredRecord
from collector.logs.whole_log import read_partitions
from collector.past.evaluations import evaluation_records, readable_evaluation
from collector.past.turns import readable_turn
from collector.records.attributes import text_at
from collector.records.audits import audit_of, audit_outcome
from collector.records.json import evaluation_from_json, fields_of, indented_json
from collector.records.shared_records import divide_records
from collector.records.turns import conversation_key, turn_key
from collector.service.assembly_builder import build_assembler
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import Logs, open_stored_logs
from collector.service.plan_builder import build_unasked_plan, evaluator_version_in, usd_again
from collector.statistics.agreement import ScoreScale
from collector.telemetry.plain import plain
from collector.wording import as_utc, listed, plural, usd
from evaluators.cases import Turn
from evaluators.identity import link_of
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class PastDraw:
    """The rate before boosts and budgets, the salt, and the monitor's `match` at the draw; None where unknown."""

    rate: float | str | None = None
    salt: str | None = None
    match: Mapping[str, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTrace:
    """The steps of one evaluation: what is in the logs about it.

    `turns` are the records of its turns, `spans` those of the traces of the latest one; either is empty where the log
    does not have them any more. `places` are the exporters' places in its partition, None for one without any.
    """

    evaluation: Evaluation
    record: StoredRecord
    copies: int
    superseded_by: Sequence[str]
    turns: Sequence[tuple[StoredRecord, Turn]]
    spans: Sequence[StoredRecord]
    explained: ExplainedTrace | None
    places: dict[str, Committed | None]
    draw_key: DrawKey = PUBLIC
    past_draw: PastDraw = PastDraw()
    written: Sequence[str] = ()
    """The steps that a judge wrote of the evaluator's criteria."""


async def trace_evaluation(config: Config, evaluation_id: str, say: Callable[[str], None], *, as_json: bool) -> int:
    """Print the steps of an evaluation, or what became of turns, by an id of theirs; returns the exit status.

    Raises:
        ConfigError: the configuration has no log that could have it.
        EvalstreamError: the logs have no evaluation, trace, turn or conversation with this id.
    """
    async with open_stored_logs(config.settings.log) as logs:
        traced = await _find(config, logs, evaluation_id)
        document = steps(traced, config) if traced else await _find_subject(config, logs, evaluation_id)
    if as_json:
        say(indented_json(document))
        return DONE
    for line in lines(traced, config) if traced else _subject_lines(**document):
        say(plain(line))
    return DONE


def _subject_lines(
    assembled: ExplainedTrace | None, remarks: Sequence[str], turns: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    yield from (*(format_lines(assembled) if assembled else ()), *remarks)
    if not turns:
        yield "turn       none in the log yet: the trace is not complete, or its spans make no turn (see above)"
    for turn_id, outcomes in turns.items():
        yield f"turn       {turn_id}"
        yield from (f"           {place}: {outcome}" for place, outcome in outcomes.items())


async def _find_subject(config: Config, logs: Logs, name: str) -> dict[str, Any]:
    """How the spans of a trace were read; by turn and evaluator the outcome, or why there is none."""
    key, ended = name.encode("utf-8", "replace"), dict[bytes | None, float]()

    def mentions_it(record: StoredRecord) -> bool:
        if not record.headers:
            ended[record.key] = max(record.timestamp, ended.get(record.key, 0.0))
        return key in record.value

    read = [(record, turn) for record in await _select(logs.turns, mentions_it) if (turn := readable_turn(record))]
    turns = [(record, turn) for record, turn in read if name in (turn.turn_id, turn.trace_id, turn.conversation_id)]
    spans = await _spans(logs.spans, name)
    if not turns and not spans:
        raise EvalstreamError(
            f"no evaluation, trace, turn or conversation {name!r} in the log: it may be another configuration's, not "
            "made yet, or older than the log's retention; an evaluation's id is the `evaluation_id` of its record"
        )
    made = [readable_evaluation(record) async for record in evaluation_records(logs.evaluations)]
    by_place = {(each.monitor, each.evaluator, each.subject.id): each for each in made if each}
    definitions, outcomes = await logs.generated_steps(), dict[str, Mapping[str, str]]()
    done = {of: metadata_of(committed).done_below for of, committed in (await logs.turns.committed(GROUP)).items()}
    secret, history = await draw_key(definitions), ConfigurationHistory(definitions, config)
    controls = {of: await control_records_in(logs.evaluations, of) for of in {record.partition for record, _ in turns}}
    problem = next((each for each in running_problems(config) if each.startswith("judges: ")), None)
    for record, turn in turns:
        now = build_unasked_plan(config, secret.at(record.timestamp))
        in_force = Configurations(switches_of((0, UNNUMBERED), controls[record.partition]), now)
        plan = await history.plan_of(in_force.number_at(record.offset)) or now
        last = max(record.timestamp, ended.get(turn_key(turn), 0.0))
        why_none = partial(_why_none, now, problem, (record.timestamp, last), turn)
        is_over = record.offset < done.get(record.partition, 0)
        why_out = partial(_why_sampled_out, _rates_at(record.offset, plan, controls[record.partition]), is_over)
        matching = (monitor for monitor in now.monitors if monitor.matches(turn))
        uses = [(monitor.name, use.evaluator.name) for monitor in matching for use in monitor.assignments]
        newer = [use for use in uses if plan.assignment_of(*use) is None]
        later = dict.fromkeys(map("/".join, newer), "none: this evaluator was not configured when the turn came")
        outcomes[turn.turn_id] = later | dict(_outcomes(turn, plan, by_place, why_out, why_none))
    assembler = build_assembler(config.settings.assemble, config.settings.dialects)
    remarks = examine([[_piece(record) for record in spans]], assembler).lines()
    return {"assembled": _explained(name, spans, assembler), "remarks": list(remarks), "turns": outcomes}


def _rates_at(offset: int, plan: Plan, controls: Sequence[ControlRecord]) -> PlanInForce:
    """The rates in force when a turn came; a factor of 0 says that the log no longer has the decision about one."""
    unknown = Rates({monitor.name: RateReduction(0.0) for monitor in plan.monitors})
    in_force = PlanInForce(plan, (), (), PartitionState(plan, ReplayPoint(offset, rates=unknown), controls).rates)
    in_force.advance(offset)
    return in_force


def _why_sampled_out(
    rates: PlanInForce, is_over: bool, monitor: Monitor, use: Assignment, boost: float, draw: float
) -> str | None:
    """Why a draw did not select a turn that has no evaluation; "" if it may have selected it, None if it did.

    `is_over`: the evaluate stage has ended all that became due when the turn came.
    """
    factor = rates.reduction(monitor.name).factor
    rate, lowest = (monitor.probability(use, each, boost) for each in (1.0, factor))
    if draw < lowest:
        return None
    if draw >= rate:
        below = f"{rate:g} (sample)"
    elif factor > 0.0:
        below = f"{lowest:g} (lowered from {rate:g} by {_lowers(monitor)})"
    elif is_over and use.evaluator.scope == "turn" and monitor.reference_wait is None:
        below = f"of that time (lowered from {rate:g} by {_lowers(monitor)})"
    else:
        return ""
    return f"the conversation's draw {draw:.4f} is not below the rate {below}"


def _lowers(monitor: Monitor) -> str:
    return "a budget" if monitor.standard_error is None else "sample: auto or a budget"


def _outcomes(
    turn: Turn, plan: Plan, made: Mapping[tuple[str, str, str], Evaluation],
    why_out: Callable[[Monitor, Assignment, float, float], str | None], why_none: Callable[[Monitor, Assignment], str],
) -> Iterator[tuple[str, str]]:  # fmt: skip
    key = conversation_key(turn)
    done = {at[:2]: judged for at, judged in made.items() if at[2] in (turn.turn_id, key) and _includes(judged, turn)}
    for at, judged in done.items():  # whatever the configuration asks for now
        yield "/".join(at), f"{_result(judged)}; see evalstream explain {judged.evaluation_id}"
    for monitor in plan.monitors:
        if not monitor.matches(turn):
            has = "; ".join(
                f"{path} {text_at(turn, path) or 'none'}, not {' or '.join(sorted(wanted))}"
                for path, wanted in monitor.match.items()
                if text_at(turn, path) not in wanted
            )
            if monitor.name not in {name for name, _ in done}:
                yield (
                    monitor.name,
                    f"unmatched: {f'the turn has {has}' if has else 'the monitor watches runs of agents'}",
                )
            continue
        boost, _ = monitor.strata.of(turn, {})
        for assignment in monitor.assignments:
            name, scope = assignment.evaluator.name, assignment.evaluator.scope
            why = why_out(monitor, assignment, boost, plan.draw(assignment, key))
            outcome = f"sampled_out: {why}"
            if not why:
                earlier = made.get((monitor.name, name, key)) if scope == "conversation" else None
                before = f"; without this turn: evalstream explain {earlier.evaluation_id}" if earlier else ""
                maybe = "" if why is None else f", or {_lowers(monitor)} lowered the rate and left it out"
                outcome = f"none yet: {why_none(monitor, assignment)}{maybe}{before}"
            if (monitor.name, name) not in done:
                yield f"{monitor.name}/{name}", outcome


def _includes(judged: Evaluation, turn: Turn) -> bool:
    """Whether the judged revision of a conversation has the turn; True if it does not say which turns it has."""
    links = judged.subject.links
    return not links or link_of(turn) in links


def _why_none(
    now_in_force: Plan, problem: str | None, at: tuple[float, float], turn: Turn, monitor: Monitor, use: Assignment
) -> str:
    """The event that a sampled evaluation waits for, as far as logs, configuration and a running service tell it.

    The newest plan makes what earlier ones left. `problem` is what the service says of its judges. `at` are the times
    at which the log received the turn, and the last one of its conversation.
    """
    now, (since, last) = time.time(), at
    if now_in_force.assignment_of(monitor.name, use.evaluator.name) is None:
        return "the configuration no longer has this evaluator"
    if use.evaluator.scope == "turn":
        missing = awaited_fields(use, turn)
    elif now < (since := last + monitor.window_settings.idle_gap):
        return f"the conversation ends at {as_utc(since)} if no turn follows"
    else:
        missing = referenced_fields(use.evaluator)
    if monitor.reference_wait and missing and now < since + monitor.reference_wait:
        return f"the evaluation waits for {listed(sorted(missing))} until {as_utc(since + monitor.reference_wait)}"
    judge = use.judge_name
    if judge and problem:
        return f"the service says of {problem}"
    return f"the judge {judge} has not answered yet" if judge else "the service has not come to this evaluation"


def _result(evaluation: Evaluation) -> str:
    error = evaluation.error
    why = f"{error.type} ({error.message})" if error else evaluation.reason
    outcome = evaluation.outcome if evaluation.score is None else f"scored {evaluation.score:g}"
    return f"{outcome}: {why}" if why else outcome


async def _find(config: Config, logs: Logs, evaluation_id: str) -> EvaluationTrace | None:
    name = evaluation_id.encode()
    mentions = [record async for record in evaluation_records(logs.evaluations) if name in record.value]
    copies = [record for record in mentions if record.key == name]
    if not copies:
        return None
    evaluation = evaluation_from_json(copies[0].value)
    if configured := config.evaluators.get(evaluation.evaluator):
        evaluation = ScoreScale.of(configured.evaluator).of_now(evaluation)
    others = [other for record in mentions if (other := readable_evaluation(record)) is not None]
    later = [each for each in others if evaluation_id in each.supersedes]
    turns = await _turns(logs.turns, evaluation, copies[0].partition)
    trace_id, definitions = evaluation.subject.trace_id or "", await logs.generated_steps()
    spans = await _spans(logs.spans, trace_id)
    return EvaluationTrace(
        evaluation=evaluation, record=copies[0], copies=len(copies), turns=turns, spans=spans,
        superseded_by=sorted({each.evaluation_id for each in later}),
        explained=_explained(trace_id, spans, build_assembler(config.settings.assemble, config.settings.dialects)),
        places={
            each: (await logs.evaluations.committed(group_of(each))).get(copies[0].partition)
            for each in config.settings.export
        },
        draw_key=await draw_key(definitions), written=await definitions.steps_of(evaluation.details),
        past_draw=await _past_draw(config, logs, evaluation, copies[0].partition, [record for record, _ in turns]),
    )  # fmt: skip


async def _past_draw(
    config: Config, logs: Logs, evaluation: Evaluation, partition: int, turns: Sequence[StoredRecord]
) -> PastDraw:
    """How an evaluation was drawn, which the present configuration may have changed.

    The configuration of when a turn came draws it. A conversation's draw comes later, as do those of `rejudge`: then
    all configurations until the evaluation must agree, from the last turn on or, if no turn is left, from the first on.
    """
    history, begun, first = ConfigurationHistory(await logs.generated_steps(), config), evaluation.started_at, 1
    await history.refresh()
    if turns:
        switches = switches_of((0, UNNUMBERED), await control_records_in(logs.evaluations, partition))
        first = Configurations(switches, Plan(())).number_at(turns[-1].offset)
    is_at_arrival = turns and evaluation.scope == "turn" and evaluation.happened_at is None
    later = () if is_at_arrival else history.after(first)
    draws, matches = set[tuple[float | str, str]](), set[frozenset[tuple[str, frozenset[str]]]]()
    for number in (first, *(each.number for each in later if each.since <= begun.timestamp())):
        if (plan := await history.plan_of(number)) is None:
            return PastDraw()
        if (use := plan.assignment_of(evaluation.monitor, evaluation.evaluator)) is not None:
            monitor, assignment = use
            is_planned = assignment.rate is None and monitor.standard_error is not None
            rate = "auto" if is_planned else monitor.probability(assignment, 1.0, 1.0)
            draws.add((rate, plan.salt_of(assignment)))
            matches.add(frozenset(monitor.match.items()))
    past = PastDraw(*draws.pop()) if len(draws) == 1 else PastDraw()
    return replace(past, match=dict(matches.pop()) if len(matches) == 1 else None)


async def _select(log: Log, wanted: Callable[[StoredRecord], bool], partition: int | None = None) -> list[StoredRecord]:
    batches = read_partitions(log) if partition is None else log.read(partition, 0)
    return [
        record async for batch in batches for record in divide_records(batch) if not record.is_tick and wanted(record)
    ]


async def _turns(log: Log, evaluation: Evaluation, partition: int) -> list[tuple[StoredRecord, Turn]]:
    """The records of the judged turns, oldest first; an evaluation is in the partition of its turns."""
    subject = evaluation.subject
    key = subject.conversation_id.encode("utf-8", "replace")
    turns: dict[str, tuple[StoredRecord, Turn]] = {}
    for record in await _select(log, lambda record: record.key == key, partition):
        if (turn := readable_turn(record)) is None:
            continue
        judged = turn.turn_id == subject.turn_id if subject.turn_id else _includes(evaluation, turn)
        if judged:
            turns.setdefault(turn.turn_id, (record, turn))
    return list(turns.values())


async def _spans(log: Log, trace_id: str) -> list[StoredRecord]:
    key = trace_id.encode("utf-8", "replace")
    return await _select(log, lambda record: (record.key or b"").partition(b"@")[0] == key) if key else []


def _explained(trace_id: str, spans: Sequence[StoredRecord], assembler: Assembler) -> ExplainedTrace | None:
    return explain(trace_id, map(_piece, spans), assembler) if spans else None


def _piece(record: StoredRecord) -> TracePiece:
    signal = dict(record.headers).get("signal")
    return TracePiece("logs" if signal == b"logs" else "traces", record.value, record.number)


_HEAD = ("evaluation_id", "evaluator", "evaluator_version", "subject", "attributes")


def steps(traced: EvaluationTrace, config: Config) -> dict[str, Any]:
    """The steps as plain JSON values."""
    evaluation = traced.evaluation
    return {
        **fields_of(evaluation, *_HEAD),
        "received": _received(traced),
        "assembled": traced.explained,
        "turns": [_turn(record, turn) for record, turn in traced.turns],
        "monitor": _monitor(traced, config),
        "draw": _draw(traced, config),
        "wait_seconds": _wait(traced),
        "judged": _judged(traced, config),
        "weight": 1.0 / evaluation.sampling.probability,
        "recorded": {
            "at": as_utc(traced.record.timestamp),
            **fields_of(traced.record, "partition", "offset"),
            "supersedes": evaluation.supersedes,
            **fields_of(traced, "copies", "superseded_by"),
        },
        "exports": {name: _export(place, traced.record) for name, place in traced.places.items()},
    }


def _received(traced: EvaluationTrace) -> dict[str, Any] | None:
    if not traced.spans:
        return None
    times = [record.timestamp for record in traced.spans]
    size = sum(len(record.value) for record in traced.spans)
    return {"pieces": len(times), "bytes": size, "first": as_utc(min(times)), "last": as_utc(max(times))}


def _turn(record: StoredRecord, turn: Turn) -> dict[str, Any]:
    return {
        **fields_of(turn, "turn_id", "dialect", "service", "model", "ended_at", "incomplete"),
        "in_log_at": as_utc(record.timestamp), "partition": record.partition, "offset": record.offset,
        "failed": turn.error is not None,
    }  # fmt: skip


def _monitor(traced: EvaluationTrace, config: Config) -> dict[str, Any]:
    evaluation, past = traced.evaluation, traced.past_draw.match
    monitor, name = config.settings.monitors.get(evaluation.monitor), evaluation.evaluator
    configured = monitor is not None and name in [use.name for use in monitor.uses]
    return {
        "name": evaluation.monitor,
        "configured": configured,
        "match": None if past is None else {key: sorted(past[key]) for key in sorted(past)},
        "current_match": monitor.match if monitor else None,
        "current_version": evaluator_version_in(config, name, evaluation.monitor) if configured else None,
    }


def _draw(traced: EvaluationTrace, config: Config) -> dict[str, Any]:
    evaluation, settings, past = traced.evaluation, config.settings, traced.past_draw
    monitor = settings.monitors.get(evaluation.monitor)
    use = next((use for use in (monitor.uses if monitor else ()) if use.name == evaluation.evaluator), None)
    made_at = traced.turns[-1][0].timestamp if traced.turns else evaluation.started_at.timestamp()
    present = keyed_salt(traced.draw_key.at(made_at), (use.salt if use else None) or settings.evaluate.sampling_salt)
    salt = present if past.salt is None else past.salt
    key = conversation_key(traced.turns[-1][1]) if traced.turns else evaluation.subject.conversation_id
    own = own_probability(evaluation)
    return {
        "draw": draw(salt, key),
        "probability": own,
        "selected": draw(salt, key) < own,
        "rate": past.rate,
        **{name: getattr(evaluation.sampling, name) for name in ("stratum", "unit", "upstream")},
    }


def own_probability(evaluation: Evaluation) -> float:
    """The probability of this service's own draw, without earlier samplers' and the evaluator's."""
    sampling = evaluation.sampling.of_subject
    return sampling.probability / (1.0 if sampling.upstream == "unknown" else sampling.upstream)


def _wait(traced: EvaluationTrace) -> float | None:
    """Seconds from the log's taking the latest turn until the evaluation began."""
    return max(0.0, traced.evaluation.started_at.timestamp() - traced.turns[-1][0].timestamp) if traced.turns else None


_SCORE = ("outcome", "score", "label", "passed", "explanation", "reason")
_VERDICT = (*_SCORE, "method", "started_at", "judge", "usage", "cost_usd")


def _judged(traced: EvaluationTrace, config: Config) -> dict[str, Any]:
    evaluation, error = traced.evaluation, traced.evaluation.error
    configured = config.evaluators.get(evaluation.evaluator)
    members = config.settings.members(configured.judge) if configured and configured.judge else ()
    judge = members[0] if len(members) == 1 else "<name>"
    is_current = _monitor(traced, config)["current_version"] == evaluation.evaluator_version  # else by other judges
    now = usd_again(config, evaluation.evaluator, evaluation) if is_current else None
    judges = {name for of in judges_of(evaluation.evaluator, config.evaluators) for name in config.settings.members(of)}
    return {
        **fields_of(evaluation, *_VERDICT),
        "error": error.type if error else None,
        "message": error.message if error else None,
        "remedy": remedy_of(error.type, error.message, judge) if error else None,
        "seconds": (evaluation.ended_at - evaluation.started_at).total_seconds(),
        "steps": traced.written,
        "fallback": evaluation.attributes.get("fallback_judge"),
        "usd_per_million_tokens": {
            name: [of.usd_per_million_input_tokens, of.usd_per_million_output_tokens]
            # else these are other prices
            for name in (sorted(judges) if now and isclose(now, evaluation.cost_usd or 0.0) else ())
            if (of := config.settings.judges.get(name)) is not None
        },
    }


def _export(place: Committed | None, record: StoredRecord) -> dict[str, Any]:
    if place is None:
        return {"exported": False, "behind": None}
    return {"exported": place.offset > record.offset, "behind": max(0, record.offset + 1 - place.offset)}


def lines(traced: EvaluationTrace, config: Config) -> Iterator[str]:
    """The steps as lines of text."""
    evaluation = traced.evaluation
    subject = evaluation.subject
    of = f"turn {subject.turn_id}" if subject.turn_id else f"revision {subject.revision}"
    yield f"evaluation {evaluation.evaluation_id}: {evaluation.evaluator} {evaluation.evaluator_version}"
    yield f"subject    {of} of conversation {subject.conversation_id}"
    if evaluation.attributes:
        yield f"attributes {', '.join(f'{name}={_plain(value)}' for name, value in evaluation.attributes.items())}"
    yield from _assembly_lines(traced)
    yield from _decision_lines(traced, config)
    yield from _judge_lines(traced, config)
    yield from _record_lines(traced)


def _plain(value: Any) -> str:
    return "+".join(map(str, cast("list[Any]", value))) if isinstance(value, (list, tuple)) else str(value)


def _assembly_lines(traced: EvaluationTrace) -> Iterator[str]:
    if (received := _received(traced)) is None:
        is_ready_made = traced.evaluation.subject.trace_id is None
        yield f"received   {'as a ready-made turn' if is_ready_made else 'its spans are not in the log any more'}"
    else:
        pieces, size = plural(received["pieces"], "piece"), f"{received['bytes']:,} bytes"
        yield f"received   {pieces} of its trace, {size}, from {received['first']} to {received['last']}"
    if traced.explained is not None:
        yield from (f"           {line}" for line in format_lines(traced.explained))
    if not traced.turns:
        yield "turn       not in the log any more: retention deleted it, or store_text: false once it was judged"
    for record, turn in traced.turns[-20:]:
        ended = "" if turn.ended_at is None else f", {record.timestamp - turn.ended_at.timestamp():.1f} s after its end"
        dialect = turn.dialect or "ready-made"
        yield f"turn       {turn.turn_id} ({dialect}), in the log at {as_utc(record.timestamp)}{ended}"


def _decision_lines(traced: EvaluationTrace, config: Config) -> Iterator[str]:
    evaluation = traced.evaluation
    monitor, selection = _monitor(traced, config), _draw(traced, config)
    if not monitor["configured"]:
        note = ": this configuration has no such monitor with this evaluator"
    elif monitor["current_version"] not in (None, evaluation.evaluator_version):
        note = f": the configuration's version of the evaluator is {monitor['current_version']} now"
    else:
        is_known = monitor["match"] is not None
        wanted: Mapping[str, Any] = monitor["match" if is_known else "current_match"] or {}
        turns = ", ".join(f"{key} is {_plain(value)}" for key, value in wanted.items()) or "every turn"
        note = f": {turns}" if is_known else f": today {turns}"
    yield f"monitor    {evaluation.monitor}{note}"
    rate = selection["rate"] if isinstance(selection["rate"], str | None) else f"{selection['rate']:g}"
    note = "" if rate is None else f" (rate {rate} before boosts and budgets, stratum {selection['stratum']})"
    sign = "<" if selection["selected"] else "≥"
    yield f"draw       {selection['draw']:.6f} {sign} {selection['probability']:g}{note}, by {selection['unit']}"
    if not selection["selected"]:
        yield "           the draw does not select this evaluation: the rate, the salt or a budget has changed since"
    if (wait := _wait(traced)) is not None:
        yield f"wait       {wait:.2f} s from the arrival of the latest turn in the log to the start of the evaluation"


_VERDICTS = {True: ", passed", False: ", did not pass", None: ""}


def _judge_lines(traced: EvaluationTrace, config: Config) -> Iterator[str]:
    evaluation = traced.evaluation
    judged = _judged(traced, config)
    result = _result(evaluation)
    if evaluation.score is not None:
        result = f"{evaluation.score:g}{_VERDICTS[evaluation.passed]}, method {evaluation.method}"
    yield f"judged     {result}; {judged['seconds']:.2f} s from {as_utc(evaluation.started_at.timestamp())}"
    if evaluation.explanation:
        yield f"reason     {' '.join(evaluation.explanation.split())}"
    if judged["remedy"]:
        yield f"remedy     {judged['remedy']}"
    if judge := evaluation.judge:
        fallback = " (fallback)" if judged["fallback"] else ""
        fingerprint = f", fingerprint {judge.fingerprint}" if judge.fingerprint else ""
        yield f"judge      {judge.model}{fallback}{fingerprint}, prompt {judge.prompt_hash or 'unknown'}"
    if (audited := audit_outcome(evaluation)) is not None:
        audit = audit_of(evaluation)
        yield f"audit      {f'{audit.score:g}{_VERDICTS[audit.passed]}' if audit else f'no score: {audited}'}"
    for number, step in enumerate(traced.written, start=1):
        yield f"{'steps' if number == 1 else '':<10} {number}. {' '.join(step.split())}"
    if reading := cast("Mapping[str, list[Any]]", evaluation.details.get("reading") or {}):
        yield f"read       steps {_plain(reading['read']) or 'none'} whole, in {reading['requests']} requests"
        yield from (f"           searched for {query!r}" for query in reading["searched"])
    if usage := evaluation.usage:
        cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
        estimated = " (estimated)" if usage.estimated_calls else ""
        tokens = f"{usage.input_tokens:,}{cached} + {usage.output_tokens:,} tokens{estimated}"
        cost = "cost unknown, as no price was set then" if evaluation.is_unpriced else usd(evaluation.cost_usd or 0.0)
        known = {name: price for name, price in judged["usd_per_million_tokens"].items() if None not in price}
        prices = ", ".join(f"{name}: {price[0]:g} and {price[1]:g} USD per million" for name, price in known.items())
        among = ", the audit's among them" if audited is not None and usage.calls > 1 else ""
        yield f"paid       {plural(usage.calls, 'call')}{among}, {tokens}, {cost}{prices and f' ({prices})'}"
    sampling, factors = evaluation.sampling, [f"{own_probability(evaluation):g}"]
    factors += [] if sampling.own is None else [f"{sampling.own:g} by the evaluator's own draw"]
    factors += [] if sampling.upstream == "unknown" else [f"{sampling.upstream:g} by earlier samplers"]
    product = f"({factors[0]} here × {' × '.join(factors[1:])})" if factors[1:] else factors[0]
    yield f"weight     {1.0 / sampling.probability:g} = 1 / {product}"


_OF_ALL = ("prometheus", "jsonl")
"""Exporters that send skips, too."""


def _record_lines(traced: EvaluationTrace) -> Iterator[str]:
    record = traced.record
    copies = f"; {traced.copies} copies, which count as one" if traced.copies > 1 else ""
    yield f"recorded   at {as_utc(record.timestamp)}, partition {record.partition}, offset {record.offset}{copies}"
    yield from (f"           replaces {each}" for each in traced.evaluation.supersedes)
    yield from (f"           {each} replaces it" for each in traced.superseded_by)
    for name, place in traced.places.items():
        state = _export(place, record)
        if state["behind"] is None:
            text = "has taken nothing of this partition yet"
        elif not state["exported"]:
            text = f"not exported yet: {plural(state['behind'], 'record')} behind"
        else:
            is_sent = traced.evaluation.outcome != "skipped" or name in _OF_ALL
            text = "exported" if is_sent else "read; skips are sent only with skipped: true"
        yield f"export     {name}: {text}"
