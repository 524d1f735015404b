"""The attributes of an evaluation: what is known of its turn or conversation, by names out of a closed set.

They are for counting, comparing and finding. Values are a stranger's: short texts and numbers, never the judged texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import cast

from collector.dialects.attributes import is_masked
from collector.records.recorded_turn import TurnFields
from collector.records.tenants import tenant_of
from evaluators.cases import Conversation, Json, Turn
from evaluators.identity import CASE_DIGEST
from evaluators.texts.language import language_of

FIELDS = ("service", "model", "dialect")
"""Fields of a turn that are attributes of its evaluations."""
RECORDED = ("service_version", "environment", "provider", "agent", "prompt", "prompt_version")
"""Attributes of a turn that are there without being declared, and also attributes of its evaluations."""
DERIVED = ("tools", "language", "tenant")
"""The values derived from a turn when it is judged."""
STANDARD = (*FIELDS, *RECORDED, *DERIVED)

_OF_TURNS = ("span_name", "scope", "root", "finish", "input_uncertain", "attachments_left_out", "truncated_fields")
SPOKEN = ("speech_interrupted", "speech_latency_ms")
"""Attributes of turns by voice: whether the user interrupted the answer, and ms until it began."""
OF_EVALUATIONS = ("closed_by", "turns", "gaps", "incomplete", "fallback_judge", "replay_of", CASE_DIGEST)
_NAMESPACES = ("evalstream.", "conversation.", "outcome.")

LONGEST_VALUE = 16_384
"""Characters of a declared attribute of a turn, which an evaluator may read; longer texts are cut."""
LONGEST_LABEL = 200
"""Characters of an evaluation's attribute."""
_MOST_ITEMS = 16
_MOST_TOOLS = 16
_LONGEST_INPUT = 1000


def is_reserved(name: str) -> bool:
    """Whether a name cannot be declared, since it has another meaning in turns or evaluations."""
    return name in {*FIELDS, "tools", "tenant", "agent_run_of", *_OF_TURNS, *OF_EVALUATIONS} or name.startswith(
        _NAMESPACES
    )


def is_undeclared(name: str) -> bool:
    """Whether turns may have an attribute of this name although it is not declared."""
    return name in {*RECORDED, *_OF_TURNS, *SPOKEN} or name.startswith(_NAMESPACES)


def plain_value(value: Json) -> Json:
    """A value as a text or a number; None if it is empty, masked or an object. A list becomes a text with commas."""
    match value:
        case str():
            text = value[: LONGEST_VALUE + 2].strip()
            if len(text) > 2 and text[0] == text[-1] == '"':
                text = text[1:-1]  # some libraries write texts as JSON
            return text[:LONGEST_VALUE] if text and not is_masked(text) else None
        case bool():
            return "true" if value else "false"
        case int():
            return value if abs(value) < 1 << 63 else str(value)[:LONGEST_LABEL]
        case float():
            return value if isfinite(value) else None
        case list() | tuple():
            members = cast("list[Json]", value)[:_MOST_ITEMS]
            items = [plain_value(member) for member in members if not isinstance(member, (list, tuple))]
            return ",".join(str(item) for item in items if item is not None)[:LONGEST_VALUE] or None
        case _:
            return None


def declared_attributes(attributes: Mapping[str, Json], declared: Mapping[str, Sequence[str]]) -> dict[str, Json]:
    """Declared attributes that are not there under their names: a ready-made turn may have them under other keys."""
    changes: dict[str, Json] = {}
    for name, keys in declared.items():
        if name not in attributes:
            values = (plain_value(attributes[key]) for key in keys if key in attributes)
            value = next((each for each in values if each is not None), None)
            if value is not None:
                changes[name] = value
    return changes


def with_declared(turn: Turn, declared: Mapping[str, Sequence[str]]) -> Turn:
    """The turn with its declared attributes under their names."""
    changes = declared_attributes(turn.attributes, declared)
    return replace(turn, attributes={**turn.attributes, **changes}) if changes else turn


def attributes_of(case: Turn | Conversation, declared: Iterable[str] = ()) -> dict[str, Json]:
    """The attributes of the judged case, without unknown ones.

    A conversation has the attributes of its latest turn that has them; it has the tools of all turns.
    """
    turns = (case,) if isinstance(case, Turn) else case.turns
    result: dict[str, Json] = {}
    tools: set[str] = set()
    for turn in turns:
        _add_attributes(turn, declared, result)
        tools.update(call.name[:LONGEST_LABEL] for call in turn.tools_called)
    tools.discard("")
    if tools:
        result["tools"] = sorted(tools)[:_MOST_TOOLS]
    if "language" not in result and (language := language_of(_words(turns))) is not None:
        result["language"] = language
    return result


def _add_attributes(turn: Turn, declared: Iterable[str], result: dict[str, Json]) -> None:
    values: list[tuple[str, Json]] = [(name, getattr(turn, name) or None) for name in FIELDS]
    values += [(name, turn.attributes.get(name)) for name in (*RECORDED, "language", *declared)]
    for name, value in values:
        if value is not None and (short := _shortened(value)) is not None:
            result[name] = short
    if turn.agent_run_of is not None:
        result["agent_run_of"] = turn.agent_run_of[:LONGEST_LABEL]
    if tenant := tenant_of(turn):
        result["tenant"] = tenant[:LONGEST_LABEL]


def _shortened(value: Json) -> Json:
    plain = plain_value(value)
    return plain[:LONGEST_LABEL] if isinstance(plain, str) else plain


def _words(turns: Iterable[TurnFields]) -> str:
    """The user's words, the latest first, within the limits on what is searched."""
    texts = [text[:_LONGEST_INPUT] for turn in turns if (text := turn.input)]
    return "\n".join(reversed(texts[-8:]))[: 2 * _LONGEST_INPUT]


def text_at(turn: TurnFields, path: str) -> str:
    """A turn's field, its `tenant` or `language`, or `attributes.<name>`, as text; "" if there is none."""
    if path == "tenant":
        return tenant_of(turn)
    if path in {"language", "attributes.language"}:
        declared = _shortened(turn.attributes.get("language"))
        return str(declared) if declared is not None else language_of(_words((turn,))) or ""
    if path.startswith("attributes."):
        value = turn.attributes.get(path.removeprefix("attributes."))
    else:
        value = getattr(turn, path, None)
    return "" if value is None else str(value)
