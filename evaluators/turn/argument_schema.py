"""Whether an agent called its tools with the arguments that they take.

Whether the arguments of a tool call fit the JSON Schema of its definition, within a bounded number of steps.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from itertools import islice
from types import NoneType
from typing import Any, ClassVar, cast

import orjson

from evaluators.cases import Json, ToolCall, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import CodeEvaluator
from evaluators.judge import Judge
from evaluators.results import Score, SkipReason
from evaluators.texts.linear_regex import matches
from evaluators.texts.linear_schema import linear
from evaluators.texts.paths import parse_json_or_text

_MOST_STEPS = 50_000
"""The most keywords that are applied to the arguments of one call; the schema comes from a trace, and `$ref` can double
work."""
_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_COMBINATIONS = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref"}
)
"""Keywords beside `properties` that may permit more names than are listed there."""
_STRICT = "$strict"


class _TooManySteps(Exception):
    pass


_steps_left: ContextVar[list[int]] = ContextVar("steps left for the arguments of one call")


def find_problems(arguments: Json, schema: Mapping[str, Json], most: int) -> list[str] | None:
    """Returns the first faults of the arguments, one clause for each and without their values; [] if they fit.

    None if they cannot be compared: the schema is no JSON Schema, refers to another document, or takes too many steps.
    Two things differ from JSON Schema, because tools behave so: an argument that `properties` does not list is wrong
    where nothing permits it, and an optional argument may be null.
    """
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    token = _steps_left.set([_MOST_STEPS])
    try:
        return [_clause(error) for error in islice(_validator(orjson.dumps(schema)).iter_errors(arguments), most)]
    except (SchemaError, Unresolvable, RecursionError, _TooManySteps, orjson.JSONEncodeError):
        return None
    finally:
        _steps_left.reset(token)


@lru_cache(maxsize=256)
def _validator(encoded: bytes) -> Any:
    """Made once per schema; an empty registry, so that no reference makes it fetch anything."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    schema = _Strict(orjson.loads(encoded)).strict_schema()
    checks = _checks(validator_for(schema))
    checks.check_schema(schema)
    return checks(schema, registry=cast("Any", Registry)())


@lru_cache(maxsize=8)
def _checks(draft: Any) -> Any:
    """A draft's class whose keywords count their steps."""
    base = linear(draft)
    known: Mapping[str, Any] = base.VALIDATORS
    keywords = dict(known) | {"properties": _properties, "required": _required, "pattern": _pattern}
    keywords["additionalProperties"] = _additional_properties(known["additionalProperties"])
    # Not checked, as the time of these keywords grows with the square of the arguments.
    keywords |= {"unevaluatedItems": _no_faults, "unevaluatedProperties": _no_faults}
    extend: Any = import_module("jsonschema.validators").extend  # untyped
    return extend(base, {name: _with_step_limit(keyword) for name, keyword in keywords.items()})


def _with_step_limit(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, arguments: Any, schema: Any) -> Any:
        left = _steps_left.get()
        left[0] -= 1 + (len(value) if isinstance(value, list) else 0)  # pyright: ignore[reportUnknownArgumentType]
        if left[0] < 0:
            raise _TooManySteps
        return keyword(validator, value, arguments, schema)

    return check


def _no_faults(*_: Any) -> tuple[()]:
    return ()


def _properties(validator: Any, properties: Mapping[str, Any], arguments: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(arguments, Mapping):
        return
    required = schema.get("required", ())
    for name, value in cast("Mapping[str, Json]", arguments).items():
        if name in properties and not (value is None and name not in required):
            yield from validator.descend(value, properties[name], path=name, schema_path=name)


def _required(_validator: Any, names: list[str], arguments: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(arguments, Mapping):
        yield from (_error(name, "is missing") for name in names if name not in arguments)


def _additional_properties(original: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def check(validator: Any, allowed: Any, arguments: Any, schema: Any) -> Iterator[Any]:
        if allowed is not False or not isinstance(arguments, Mapping) or "patternProperties" in schema:
            yield from original(validator, allowed, arguments, schema)
            return
        known = schema.get("properties", {})
        names = cast("Mapping[str, Json]", arguments)
        yield from (_error(name, "is not a parameter") for name in names if name not in known)

    return check


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    try:
        fits = not isinstance(value, str) or matches(pattern, value)
    except ValueError:
        return  # a pattern that cannot be searched in linear time is not checked
    if not fits:
        yield ValidationError("")


def _error(name: str, problem: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(problem, path=(name[:100],), validator="name")


def _clause(error: Any) -> str:
    """Describes a fault without the arguments' own values; a number of the schema is named."""
    where = "the object of arguments"
    for number, part in enumerate(error.absolute_path):
        where = f"{where}[{part}]" if isinstance(part, int) else f"{where}.{part}" if number else str(part)
    match error.validator, error.validator_value:
        case "name", _:
            return f"{where} {error.message}"
        case "type", names:
            wanted = names if isinstance(names, str) else " or ".join(cast("list[str]", names))
            return f"{where} should be {wanted}, not {_type_name(error.instance)}"
        case "enum" | "const", _:
            return f"{where} is none of the values that are allowed"
        case "anyOf" | "oneOf", _:
            return f"{where} is none of what is allowed"
        case keyword, int() | float() as limit:
            return f"{where} does not fit {keyword} {limit}"
        case keyword, _:
            return f"{where} does not fit {keyword}"


_TYPE_NAMES: Mapping[type, str] = {
    NoneType: "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array",
}  # fmt: skip


def _type_name(value: Json) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _TYPE_NAMES.get(value.__class__, "object")


@dataclass(slots=True)
class _Strict:
    """Makes a schema whose objects take only what `properties` lists, wherever nothing beside it permits more.

    Objects below `oneOf` and `allOf` stay as they are, as the other parts decide what is permitted there; the options
    of `anyOf` become strict. A definition is copied for the places where it is strict, so a reference may be strict in
    one place and not in another.
    """

    root: dict[str, Json]
    definitions: dict[str, Json] = field(default_factory=dict[str, Json])

    def strict_schema(self) -> dict[str, Json]:
        """The root schema, with the strict definitions beside its own."""
        schema = cast("dict[str, Json]", self._read(self.root))
        return {**schema, _STRICT: self.definitions} if self.definitions else schema

    def _read(self, value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        schema = dict(cast("dict[str, Json]", value))
        if not _known_types(schema.get("type")):
            del schema["type"]  # "any" and the like say nothing
        if "required" in schema and not isinstance(schema["required"], list):
            del schema["required"]  # of a draft before the fourth
        properties: Json = schema.get("properties")
        if isinstance(properties, dict):
            if _COMBINATIONS.isdisjoint(schema):
                schema["additionalProperties"] = False
            listed = cast("dict[str, Json]", properties)
            schema["properties"] = {name: self._read(part) for name, part in listed.items()}
        if "items" in schema:
            schema["items"] = self._read(schema["items"])
        if isinstance(schema.get("anyOf"), list):
            schema["anyOf"] = [self._read(option) for option in schema["anyOf"]]
        if isinstance(schema.get("$ref"), str):
            schema["$ref"] = self._strict_reference(schema["$ref"])
        return schema

    def _strict_reference(self, reference: str) -> str:
        """The reference to a strict copy; the same one if the root does not have what it refers to."""
        target: Json = self.root
        for part in reference.removeprefix("#/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            target = cast("dict[str, Json]", target).get(name) if isinstance(target, dict) else None
        if not reference.startswith("#/") or not isinstance(target, dict):
            return reference
        key = reference.replace("~", "~0").replace("/", "~1")
        if reference not in self.definitions:
            self.definitions[reference] = True  # a definition may refer to itself
            self.definitions[reference] = self._read(cast("Json", target))
        return f"#/{_STRICT}/{key}"


def _known_types(types: Json) -> bool:
    """Whether `type` is left out or has names of JSON Schema alone."""
    names = cast("list[Json]", types) if isinstance(types, list) else [types]
    return types is None or all(isinstance(name, str) and name in _TYPES for name in names)


_MOST_PROBLEMS = 5


class ArgumentSchema(CodeEvaluator[Turn]):
    """The share of the tool calls whose arguments fit the definition of the tool that was offered.

    Arguments are checked against the JSON Schema in the trace, `$ref`, `oneOf`, `minimum` and `pattern` included. An
    argument that the schema does not list is wrong, too, and an optional one may be null. A call is not counted if its
    arguments are no JSON, or if the trace lacks the tool's definition. A call without arguments is checked as `{}`. A
    turn without calls gets 1; a turn in which no call counts is skipped (`missing_field: tools_offered`). For the
    content of the arguments use `argument_grounding`.
    """

    kind: ClassVar[str] = "argument_schema"
    needed_fields: ClassVar[frozenset[str]] = frozenset()
    revision: ClassVar[int] = 2

    only_offered: bool = False
    """Whether a call of a tool that was not offered is wrong, instead of not counted."""

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        offered = {tool.name: tool.parameters for tool in case.tools_offered}
        numbered = list(enumerate(case.tools_called, start=1))
        strangers = [(number, call) for number, call in numbered if offered and call.name not in offered]
        compared = [
            (number, call, problems) for number, call in numbered if (problems := _problems(call, offered)) is not None
        ]
        total = len(compared) + (len(strangers) if self.only_offered else 0)
        if numbered and not total:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("tools_offered"))
        wrong: list[Json] = [
            {"call": number, "tool": call.name, "problems": problems} for number, call, problems in compared if problems
        ]
        not_offered: list[Json] = ["was not offered"]
        if self.only_offered:
            wrong += [{"call": number, "tool": call.name, "problems": not_offered} for number, call in strangers]
        first = "".join(f"; {call['tool']}: {call['problems'][0]}" for call in wrong[:3])
        return Score(
            value=1 - len(wrong) / total if total else 1.0,
            explanation=f"{total - len(wrong)} of {total} calls fit their definitions{first}",
            details={"compared": total, "wrong": wrong[:50], "not_offered": len(strangers)},
        )


def _problems(call: ToolCall, offered: Mapping[str, Json]) -> list[Json] | None:
    """The first few faults of a call's arguments; None if they cannot be compared."""
    schema: Json = offered.get(call.name)
    arguments = parse_json_or_text(call.arguments) if isinstance(call.arguments, str) else call.arguments
    if arguments in (None, ""):
        arguments = dict[str, Json]()
    if not isinstance(schema, Mapping) or not isinstance(arguments, Mapping):
        return None  # a text that is no JSON may have been cut or redacted
    fields = cast("Mapping[str, Json]", arguments)
    if set(fields) == {"args", "kwargs"} and isinstance(fields["kwargs"], Mapping) and not fields["args"]:
        fields = cast("Mapping[str, Json]", fields["kwargs"])  # a call of Python
    return cast("list[Json] | None", find_problems(fields, cast("Mapping[str, Json]", schema), _MOST_PROBLEMS))
