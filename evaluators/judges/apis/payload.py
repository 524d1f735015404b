"""Values in JSON that somebody else's server wrote: of the right type, or nothing."""

import math
from typing import Any, cast

from evaluators.errors import NoCompletion
from evaluators.judges.answer_places import mapping
from evaluators.judges.error_mapping import error_inside
from evaluators.judges.frames import read_framed
from evaluators.wire.outside_json import UnboundedJson, read_outside


def object_in(body: bytes, answers: str) -> dict[str, Any]:
    """The object of a response with status 200 that has something under `answers`.

    Raises:
        NoCompletion: it has not, or is no JSON, for instance a page of a proxy.
        HttpStatusError: it is an error with a code or a status of its own, which says what it means.
    """
    payload = mapping(parsed(body))
    if not payload.get(answers):
        if payload.get("error") or payload.get("type") == "error":
            raise error_inside(body)
        raise NoCompletion(f"the endpoint answered with no {answers}")
    return payload


def parsed(body: bytes) -> Any:
    """The value of an answer's JSON.

    Raises:
        NoCompletion: it is no JSON, or more than any answer is.
    """
    try:
        return read_outside(body)
    except UnboundedJson as error:
        raise NoCompletion(str(error)) from None
    except ValueError:
        pass
    try:
        return read_framed(body)
    except ValueError:
        raise NoCompletion("the endpoint answered with something that is not JSON") from None


def objects(value: Any) -> list[dict[str, Any]]:
    """The items of a list, each as an object; none for anything else."""
    return [mapping(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """A text; None for anything else."""
    return value if isinstance(value, str) else None


def count(value: Any) -> int:
    """A whole number; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def probability(value: Any) -> float | None:
    """A number from 0 to 1, rounding forgiven; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return min(1.0, max(0.0, float(value))) if -_ROUNDING <= value <= 1 + _ROUNDING else None


_ROUNDING = 1e-6
