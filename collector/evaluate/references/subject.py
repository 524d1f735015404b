"""The references that an evaluator waits for, those that concern a subject, and the subject that they complete."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from collector.evaluate.plan import Assignment
from collector.logs.log import Log
from collector.logs.whole_log import read_partitions
from collector.records.json import readable
from collector.records.references import IDS, Reference, comparable_id, is_reference, parse_reference
from collector.records.tenants import tenant_of
from collector.records.turns import conversation_key
from evaluators.asking.judge_input import is_missing
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator

ReferencesByKey: TypeAlias = Mapping[str, Sequence[Reference]]
"""References by their keys, in the order in which they came."""
OUTCOME = "attributes.outcome."
"""The path of an outcome: an attribute of the turn or the conversation."""
_OF_TURNS = ("expected_output", "context", "expected_tools")
_OF_CONVERSATIONS = ("expected_outcome", "scenario", "chatbot_role")


def referenced_fields(evaluator: Evaluator[Any]) -> frozenset[str]:
    """The inputs of an evaluator that a reference can bring."""
    fields = _OF_TURNS if evaluator.scope == "turn" else _OF_CONVERSATIONS
    return frozenset(require for require in evaluator.requires if require in fields or require.startswith(OUTCOME))


def awaited_fields(assignment: Assignment, case: Turn | Conversation) -> frozenset[str]:
    """The inputs of an evaluator that a reference can bring and the case lacks."""
    return frozenset(
        referenced_field
        for referenced_field in referenced_fields(assignment.evaluator)
        if is_missing(case, referenced_field)
    )


def keys_of(case: Turn | Conversation) -> tuple[str, ...]:
    """The keys of references that may concern a case."""
    if isinstance(case, Conversation):
        return (f"conversation_id:{case.conversation_id}",)
    return tuple(f"{name}:{value}" for name, value in _ids(case).items() if value)


def concerns(reference: Reference, case: Turn | Conversation) -> bool:
    """Whether a reference is about a case: every id that it names is the case's."""
    if isinstance(case, Conversation):
        ids: dict[str, str | None] = {"conversation_id": case.conversation_id}
        tenant = next((tenant_of(turn) for turn in case.turns), "")
    else:
        ids, tenant = _ids(case), tenant_of(case)
    if reference.tenant is not None and reference.tenant != tenant:
        return False
    named = {name: value for name in IDS if (value := getattr(reference, name)) is not None}
    return all(ids.get(name) == value for name, value in named.items())


def _ids(turn: Turn) -> dict[str, str | None]:
    values = {name: getattr(turn, name) for name in ("turn_id", "span_id", "response_id", "trace_id")}
    ids = {name: value and comparable_id(name, value) for name, value in values.items()}
    return {**ids, "conversation_id": conversation_key(turn)}


def provided_fields(references: Iterable[Reference]) -> frozenset[str]:
    """The inputs that references bring."""
    fields: set[str] = set()
    for reference in references:
        fields.update(name for name in (*_OF_TURNS, *_OF_CONVERSATIONS) if getattr(reference, name) not in (None, ""))
        fields.update(f"{OUTCOME}{name}" for name in reference.outcomes)
    return frozenset(fields)


def with_references(case: Turn | Conversation, references: Iterable[Reference]) -> Turn | Conversation:
    """The case with the fields that it lacks, from references; if two references have the same field, the first
    counts.
    """
    changes: dict[str, Any] = {}
    outcomes: dict[str, Any] = {}
    fields = _OF_TURNS if isinstance(case, Turn) else _OF_CONVERSATIONS
    for reference in references:
        for name in fields:
            value = getattr(reference, name)
            if value not in (None, "") and name not in changes and is_missing(case, name):
                changes[name] = value
        for name, value in reference.outcomes.items():
            outcomes.setdefault(f"outcome.{name}", value)
    if outcomes:
        changes["attributes"] = {**outcomes, **case.attributes}
    return replace(case, **changes)


async def references_in_log(turns: Log) -> ReferencesByKey:
    """All references of the turns log, each once."""
    known: dict[str, dict[str, Reference]] = {}
    async for batch in read_partitions(turns):
        for record in filter(is_reference, batch):
            reference = readable(parse_reference, record.value)
            if reference is not None:  # else the evaluate stage dead-lettered it
                known.setdefault(reference.key, {})[reference.reference_id] = reference
    return {key: tuple(by_id.values()) for key, by_id in known.items()}


def references_of(case: Turn | Conversation, references: ReferencesByKey) -> list[Reference]:
    """The references that concern a case."""
    return [reference for key in keys_of(case) for reference in references.get(key, ()) if concerns(reference, case)]
