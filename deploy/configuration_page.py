"""The configuration reference, made from the models that check the configuration."""

# ruff: noqa: INP001 - scripts beside the pages that they write

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import orjson
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from collector import plugins
from collector.config.settings import Settings
from collector.durations import seconds

INTRODUCTION = """\
# Configuration reference

Every key of `evalstream.yaml`. `make reference` writes this page from the models that check the file.
`evalstream check` says what is wrong with a file and what the file means; with `--schema configuration` it prints the
same keys as a JSON Schema, [for editors](files-and-replay.md#schema). Complete examples:
a [chatbot](../examples/chatbot.yaml), a
[RAG service](../examples/rag.yaml), an [agent](../examples/agent.yaml).

Durations are written like `250ms`, `10s`, `15m`, `1h` or `7d`; a plain number is seconds. `${env:NAME}` anywhere in
the file is replaced by that environment variable, `${env:NAME:-default}` by the variable or a default. Keys in
**bold** are required.
"""


class Row(NamedTuple):
    """A key of the file."""

    key: str
    type: str
    default: str
    meaning: str


def document() -> str:
    """The whole reference as Markdown."""
    parts = [INTRODUCTION, *_sections("", Settings)]
    parts.append("## evaluators.&lt;name&gt;\n\nThese keys belong to every evaluator; those of each kind follow:\n")
    parts.append(_table(_common_rows()))
    for kind in plugins.names(plugins.EVALUATORS):
        evaluator = plugins.evaluator_class(kind)
        own = {name: each for name, each in evaluator.model_fields.items() if name not in ("name", "threshold")}
        parts.append(f"### kind: {kind}\n")
        parts.append(_table(_rows(own)) if own else "No keys of its own.\n")
    for name in plugins.names(plugins.EXPORTERS):
        parts += _sections(f"export.{name}", plugins.load(plugins.EXPORTERS, name).Settings)
    return "\n".join(parts)


def undescribed() -> list[str]:
    """The keys that do not say what they mean."""
    models = {"": Settings}
    models |= {f"evaluators.{kind}": plugins.evaluator_class(kind) for kind in plugins.names(plugins.EVALUATORS)}
    models |= {
        f"export.{each}": plugins.load(plugins.EXPORTERS, each).Settings for each in plugins.names(plugins.EXPORTERS)
    }
    return [
        f"{path}.{name}".lstrip(".")
        for prefix, whole in models.items()
        for path, model in _models(prefix, whole)
        for name, field in model.model_fields.items()
        if not (field.description or _model_in(field.annotation))
    ]


def _common_rows() -> Iterator[Row]:
    kinds = "the name of a kind, or `module:Class`"
    yield Row("**kind**", "text", "", f"How it scores: {kinds}.")
    yield Row(
        "judge", "text", "the only one", "Which of `judges`, `juries` or `cascades` answers; for kinds that ask one."
    )
    yield Row(
        "scope",
        "`turn`, `conversation`",
        "the kind's own",
        "What it scores: `conversation` makes `conversational_prompt` of `prompt`, and so on.",
    )
    field = plugins.evaluator_class("toxicity").model_fields["threshold"]
    yield _row("threshold", field)


def _sections(path: str, model: type[BaseModel]) -> Iterator[str]:
    for place, each in _models(path, model):
        yield f"## {_escaped(place) or 'The whole file'}\n"
        if place and each.__doc__:
            yield f"{_escaped(_one_line(each.__doc__))}\n"
        yield _table(_rows(each.model_fields))


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """A model and those inside it, each with the path of its keys."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _models(f"{path}.{name}{_steps(field.annotation)}".lstrip("."), inner)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)


def _steps(annotation: Any) -> str:
    """What stands between a key and the keys of the models that it holds."""
    origin = get_origin(annotation)
    if origin in (dict, Mapping):
        return ".<name>"
    if origin in (list, tuple, Sequence):
        return "[]"
    return next((steps for each in get_args(annotation) if (steps := _steps(each))), "")


def _rows(fields: Mapping[str, FieldInfo]) -> Iterator[Row]:
    for name, field in fields.items():
        yield _row(name, field)


def _row(name: str, field: FieldInfo) -> Row:
    inner = _model_in(field.annotation)
    meaning = _escaped(_one_line(field.description or (inner.__doc__ if inner else None) or ""))
    kind = _type(field.annotation, field.metadata)
    return Row(f"**{name}**" if field.is_required() else name, kind + _unit(name, kind), _default(field, kind), meaning)


def _type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    if any(isinstance(each, BeforeValidator) and each.func is seconds for each in metadata):
        return "duration"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0], arguments[1:])
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(_type(each) for each in arguments if each is not type(None))
        return " or ".join(kinds) + _range(metadata)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin in (list, tuple, set, frozenset, Sequence, AbstractSet):
        return f"list ({_type(arguments[0])})" if arguments else "list"
    if origin in (dict, Mapping):
        held = _type(arguments[1])
        return "sections by name" if held == "section" else f"values by name ({held})"
    return _plain_type(annotation) + _range(metadata)


def _plain_type(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    named = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path", SecretStr: "secret"}
    return named.get(annotation, "any value")


def _range(metadata: Sequence[Any]) -> str:
    flat = [each for item in metadata for each in (getattr(item, "metadata", None) or [item])]
    low = next((each for each in flat if isinstance(each, Ge | Gt)), None)
    high = next((each for each in flat if isinstance(each, Le | Lt)), None)
    bounds = [
        *([f"from {_number(low.ge)}" if isinstance(low, Ge) else f"above {_number(low.gt)}"] if low else []),
        *([f"to {_number(high.le)}" if isinstance(high, Le) else f"below {_number(high.lt)}"] if high else []),
    ]
    return f" {' '.join(bounds)}" if bounds else ""


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _unit(name: str, kind: str) -> str:
    """What a number counts, where its name says so."""
    if not kind.startswith(("integer", "number")):
        return ""
    units = {"bytes": "bytes", "usd": "US dollars", "tokens": "tokens", "days": "days"}
    return next((f", {unit}" for part, unit in units.items() if part in name.split("_")), "")


def _default(field: FieldInfo, kind: str) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel | SecretStr) or value in ({}, [], ()):
        return "–"
    if kind.startswith("duration"):
        return f"`{_duration(value)}`"
    return f"`{orjson.dumps(value, default=_jsonable).decode()}`".replace('`"', "`").replace('"`', "`")


def _jsonable(value: Any) -> Any:
    return sorted(value) if isinstance(value, AbstractSet) else str(value)


def _duration(value: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if value >= size and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}s"


def _one_line(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is; what stands between backticks needs no escape."""
    parts = text.split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;").replace(">", "&gt;") for i, part in enumerate(parts))


def _table(rows: Iterator[Row]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
