"""Shapes of the values that cases are made of: what is accepted for a field, and the sentence for what is not.

A shape takes a value and returns it as it is kept, or raises `WrongShape` with what is needed instead. Sentences name
the field and the type of what was given, never its content: judged text belongs in no log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

Shape: TypeAlias = Callable[[Any], Any]


class WrongShape(Exception):
    """A value has the wrong type or, with `bad_value`, the right type and a value that makes no sense."""

    def __init__(self, need: str, *, bad_value: bool = False) -> None:
        super().__init__(need)
        self.bad_value = bad_value


def repair(record: object, **shapes: Shape) -> None:
    """Bring the fields of a frozen record into their shapes.

    Raises:
        TypeError: a field has another type. The message names field and remedy.
        ValueError: a field has the right type and makes no sense, like a time without a time zone.
    """
    for name, shape in shapes.items():
        value = getattr(record, name)
        try:
            shaped = shape(value)
        except WrongShape as error:
            refuse = ValueError if error.bad_value else TypeError
            raise refuse(f"{type(record).__name__}.{name}: {error}") from None
        if shaped is not value:
            object.__setattr__(record, name, shaped)


def optional(shape: Shape) -> Shape:
    """The shape, or None."""
    return lambda value: None if value is None else shape(value)


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise WrongShape(f"a text (str) is needed, not {_kind(value)}")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Several texts; one alone is refused, for it would be taken letter by letter."""
    if isinstance(value, str):
        raise WrongShape('a list of texts is needed, not one text; write ["…"]')
    return cast("tuple[str, ...]", values(str)(value))


def values(kind: type) -> Shape:
    """A tuple of values of a kind; a list becomes one."""

    def shape(items: Any) -> tuple[Any, ...]:
        plural = "texts" if kind is str else f"{kind.__name__} values"
        if not isinstance(items, list | tuple):
            remedy = "; leave it out where there are none" if items is None else ""
            raise WrongShape(f"a list of {plural} is needed, not {_kind(items)}{remedy}")
        several = cast("list[Any] | tuple[Any, ...]", items)
        for number, each in enumerate(several):
            if not isinstance(each, kind):
                remedy = f"; write {kind.__name__}(…)" if isinstance(each, Mapping) else ""
                raise WrongShape(f"a list of {plural} is needed, but item {number} is {_kind(each)}{remedy}")
        return tuple(several)

    return shape


def zoned_time(value: Any) -> datetime:
    """A time that knows its time zone."""
    if not isinstance(value, datetime):
        raise WrongShape(f"a datetime is needed, not {_kind(value)}")
    if value.tzinfo is None:
        raise WrongShape("a time needs its time zone, like datetime.now(UTC)", bad_value=True)
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Values by name."""
    if not isinstance(value, Mapping):
        raise WrongShape(f"a dict is needed, not {_kind(value)}")
    return cast("Mapping[str, Any]", value)


def as_in_records(schema: Any, name: str = "") -> Any:
    """A dataclass's pydantic schema with what differs between code and records.

    The field `name` is required: in code a name may be left out, but a record without its name is another thing, or
    broken, and a log that took `{}` for a turn would have it evaluated. A time without time zone is UTC: records have
    no local time, while `datetime.now()` in code has, and is refused. The checks of `__post_init__` are left out, for
    pydantic has made them: to call back into Python for each message of a history took a fifth of reading a turn.
    """
    from pydantic_core import core_schema

    schema["post_init"] = False
    for each in schema["schema"]["fields"]:
        inner = each["schema"]
        if each["name"] == name and inner["type"] == "default":
            each["schema"] = inner["schema"]
        elif each["name"] in {"started_at", "ended_at"}:
            inner["schema"] = core_schema.no_info_after_validator_function(_in_utc, inner["schema"])
    return schema


def _in_utc(value: datetime | None) -> datetime | None:
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
