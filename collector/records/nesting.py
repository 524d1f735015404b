"""How deep what others write may nest: deeper can be read here, but not by everybody who reads the records after us."""

from collections.abc import Iterable, Mapping
from typing import cast

from collector.errors import BadInput
from collector.otlp.decode import MAX_DEPTH
from evaluators.cases import Json


def refuse_depth(document: Mapping[str, Json]) -> None:
    """Refuse a document with a value that nests deeper than OTLP's may.

    Raises:
        BadInput: names no content, as a key may be a person's words.
    """
    if any(_is_deeper(value, MAX_DEPTH) for value in document.values()):
        raise BadInput(f"a value is nested deeper than {MAX_DEPTH}; write what is deeper as a text")


def _is_deeper(value: Json, depth: int) -> bool:
    if isinstance(value, Mapping):
        inner = cast("Iterable[Json]", value.values())
    elif isinstance(value, (list, tuple)):
        inner = cast("Iterable[Json]", value)
    else:
        return False
    return depth <= 0 or any(_is_deeper(each, depth - 1) for each in inner)
