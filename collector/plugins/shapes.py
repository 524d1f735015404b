"""The shapes of plug-ins, by group: each breach of a port as one sentence with file, line and remedy."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from evaluators.evaluator import Evaluator
from evaluators.promises import class_breaches, is_built_in, method_breaches, place_of

EVALUATORS = "evalstream.evaluators"
DIALECTS = "evalstream.dialects"
EXPORTERS = "evalstream.exporters"
REDACTORS = "evalstream.redactors"

THINGS: Mapping[str, str] = {
    EVALUATORS: "evaluator kind", DIALECTS: "dialect", EXPORTERS: "exporter", REDACTORS: "redactor"
}  # fmt: skip
PARTS_OF_EXPORTER = ("Settings", "open", "export")
_OPEN = "write @classmethod, @asynccontextmanager, async def open(cls, settings, context): yield cls(…)"


def breaches(group: str, plugin: Any) -> Iterator[str]:
    """Sentences on what a loaded plug-in lacks to be one of its group."""
    match group:
        case "evalstream.evaluators" if isinstance(plugin, type) and issubclass(plugin, Evaluator):
            yield from () if is_built_in(plugin) else class_breaches(plugin)  # pyright: ignore[reportUnknownArgumentType]
        case "evalstream.exporters":
            yield from _breaches_of_exporter(plugin)
        case "evalstream.dialects":
            yield from _breaches_of_dialect(plugin)
        case _:
            pass


def _breaches_of_exporter(cls: Any) -> Iterator[str]:
    lacking = [name for name in PARTS_OF_EXPORTER if not hasattr(cls, name)]
    if not isinstance(cls, type) or lacking:
        yield f"{place_of(cls)}: an exporter is a class with {', '.join(PARTS_OF_EXPORTER)}; write {', '.join(lacking)}"
        return
    settings, opens = getattr(cls, "Settings"), getattr(cls, "open")  # noqa: B009 - a class of anybody's
    if not hasattr(settings, "model_validate"):
        yield f"{place_of(cls)}: Settings is no class of settings; derive it from ExporterSettings"
    if inspect.iscoroutinefunction(opens) or inspect.isasyncgenfunction(opens):
        yield f"{place_of(cls)}: open is no context manager; {_OPEN}"
    yield from method_breaches(cls, "export(self, batch)")


def _breaches_of_dialect(dialect: Any) -> Iterator[str]:
    name, read = getattr(dialect, "name", ""), getattr(dialect, "read", None)
    remedy = "write def read(span, records)"
    for field in ("evidence", "scopes"):
        if isinstance(text := getattr(dialect, field, ()), str):
            yield f"{place_of(read)}: {field} of the dialect {name!r} is one text; write ({text!r},)"
    try:
        inspect.signature(read).bind("span", "records")  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        yield f"{place_of(read)}: read of the dialect {name!r} cannot be called ({error}); {remedy}"
    if inspect.iscoroutinefunction(read):
        yield f"{place_of(read)}: read of the dialect {name!r} is asynchronous; {remedy}"
