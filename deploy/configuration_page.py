"""The two pages of configuration keys, made from the models that check the configuration."""

# ruff: noqa: INP001 - scripts beside the pages that they write

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import orjson
import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from collector import plugins
from collector.config.settings import Settings
from collector.durations import seconds
from evaluators.asking.judge_input import TURN_FIELDS
from evaluators.descriptions import described_fields

FIRST: Mapping[str, str] = yaml.safe_load(Path(__file__).with_name("first_keys.yaml").read_text(encoding="utf-8"))
"""The keys of the first page, by their section."""


FEW = 8
"""So many rows at most are a list, which takes less to read than a table."""


class Row(NamedTuple):
    """A key of the file."""

    key: str
    type: str
    default: str
    meaning: str


class Section(NamedTuple):
    """Keys with the same path."""

    path: str
    meaning: str
    rows: tuple[Row, ...]


def document() -> str:
    """The first page as Markdown: the keys that most deployments set."""
    return "\n".join(_tables(map(_first, _all_sections()), {}))


def advanced() -> str:
    """All other keys as Markdown; a key that the first page has elsewhere in the same words is only named."""
    sections = [*map(_first, _all_sections())]
    first = {row: section.path for section in reversed(sections) for row in section.rows}
    meanings = {section.meaning for section in sections if section.rows}
    return "\n".join(_tables(map(_others, _all_sections()), first, meanings))


def own_keys(kind: str) -> tuple[Row, ...]:
    """The keys of a kind of evaluator, but for those of every one."""
    fields = described_fields(plugins.evaluator_class(kind))
    return tuple(_rows({name: field for name, field in fields.items() if name not in ("name", "threshold")}))


def table(rows: Sequence[Row]) -> str:
    """Keys as a Markdown table; a few of them as a list."""
    if len(rows) <= FEW:
        return "".join(map(_item, rows))
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _item(row: Row) -> str:
    name = row.key.strip("*")
    key = f"**{name}**" if row.key != name else f"`{name}`"
    default = f"; {row.default}" if row.default else ""
    return f"- {key} ({row.type}{default}): {row.meaning}\n"


def _all_sections() -> Iterator[Section]:
    yield from _sections("", Settings)
    yield Section("evaluators.<name>", "How something is scored. These keys belong to every kind.", (*_common_rows(),))
    for name in plugins.names(plugins.EXPORTERS):
        yield from _sections(f"export.{name}", plugins.load(plugins.EXPORTERS, name).Settings)


def _first(section: Section) -> Section:
    keys = FIRST.get(section.path, "").split()
    return section._replace(rows=tuple(row for row in section.rows if row.key.strip("*") in keys))


def _others(section: Section) -> Section:
    keys = FIRST.get(section.path, "").split()
    meaning = "" if keys else section.meaning
    return Section(section.path, meaning, tuple(row for row in section.rows if row.key.strip("*") not in keys))


def _tables(
    sections: Iterable[Section], shown: Mapping[Row, str], meanings: AbstractSet[str] = frozenset()
) -> Iterator[str]:
    """Each section with its keys; a key that another section has in the same words is named, not explained again.

    A section whose keys are all only named does not repeat a meaning either.
    """
    places, explained = dict(shown), set(meanings)
    for section in sections:
        if not section.rows:
            continue
        yield f"## {_escaped(section.path) or 'The whole file'}\n"
        if section.meaning and not (section.meaning in explained and places.keys() >= set(section.rows)):
            yield f"{section.meaning}\n"
        explained.add(section.meaning)
        again: dict[str, list[str]] = {}
        for row in section.rows:
            if row in places:
                again.setdefault(places[row], []).append(f"`{row.key.strip('*')}`")
        if again:
            yield " ".join(f"As in `{place}`: {', '.join(names)}." for place, names in again.items()) + "\n"
        if rows := [row for row in section.rows if row not in places]:
            yield table(rows)
        places |= {row: places.get(row, section.path) for row in section.rows}


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
        for path, model, _ in _models(prefix, whole)
        for name, field in described_fields(model).items()
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
        "What it scores. Kinds like `prompt` score turns, and with `scope: conversation` conversations.",
    )
    field = described_fields(plugins.evaluator_class("toxicity"))["threshold"]
    yield _row("threshold", field)
    said = "A second judgement of a random share: [its keys](judges.md#audits)."
    yield Row("audit", "section", "", said)


def _sections(path: str, whole: type[BaseModel]) -> Iterator[Section]:
    """The sections of a model; what a section stands for is said with it, not in the table above it."""
    for place, model, said in _models(path, whole):
        fields = {
            name: field
            for name, field in described_fields(model).items()
            if field.is_required() or _model_in(field.annotation) is None
        }
        document = _one_line(model.__doc__ or "")
        if document == f"The section `{place}`.":  # the heading says so
            document = ""
        meaning = f"{said} {document.partition('. ')[2]}" if said else document
        yield Section(place, _escaped(meaning.strip()) if place else "", tuple(_rows(fields)))


def _models(path: str, model: type[BaseModel], said: str = "") -> Iterator[tuple[str, type[BaseModel], str]]:
    """A model and those inside it, each with the path of its keys and the description of the key that holds it."""
    yield path, model, said
    for name, field in described_fields(model).items():
        inner = _model_in(field.annotation)
        if inner is not None:
            place = f"{path}.{name}{_steps(field.annotation)}".lstrip(".")
            yield from _models(place, inner, _one_line(field.description or ""))


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
    return Row(f"**{name}**" if field.is_required() else name, kind, _default(field, kind), meaning)


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
        field = "a [field of a turn](concepts.md#turns-and-conversations)"
        return field if arguments == TURN_FIELDS else ", ".join(f"`{each}`" for each in arguments)
    if origin in (list, tuple, set, frozenset, Sequence, AbstractSet):
        item = _type(arguments[0]) if arguments else ""
        return f"list ({item})" if " " in item else f"{item}[]" if item else "list"
    if origin in (dict, Mapping):
        return f"map ({_type(arguments[1])})"
    return _plain_type(annotation) + _range(metadata)


def _plain_type(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    named = {bool: "boolean", int: "integer", float: "number", str: "text", Path: "path", SecretStr: "secret"}
    return named.get(annotation, "any value")


def _range(metadata: Sequence[Any]) -> str:
    flat = [each for item in metadata for each in (getattr(item, "metadata", None) or [item])]
    low = next((each for each in flat if isinstance(each, Ge | Gt)), None)
    high = next((each for each in flat if isinstance(each, Le | Lt)), None)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f" {_number(low.ge)}…{_number(high.le)}"
    bounds = [
        *([f"≥{_number(low.ge)}" if isinstance(low, Ge) else f">{_number(low.gt)}"] if low else []),
        *([f"≤{_number(high.le)}" if isinstance(high, Le) else f"<{_number(high.lt)}"] if high else []),
    ]
    return f" {' '.join(bounds)}" if bounds else ""


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


_LONG = 200  # characters


def _default(field: FieldInfo, kind: str) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel | SecretStr) or value in ({}, [], ()):
        return ""
    if kind.startswith("duration"):
        return f"`{_duration(value)}`"
    text = orjson.dumps(value, default=_jsonable).decode()
    if kind.startswith("values") and len(text) > _LONG:
        text = ", ".join(orjson.loads(text))
    return f"`{text}`".replace('`"', "`").replace('"`', "`")


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
