"""The shapes of plug-ins, by group: each breach of a port as one sentence with file, line and remedy."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from evaluators.promises import call_breaches, class_breaches, is_built_in, place_of

EVALUATORS = "evalstream.evaluators"
DIALECTS = "evalstream.dialects"
EXPORTERS = "evalstream.exporters"
REDACTORS = "evalstream.redactors"

THINGS: Mapping[str, str] = {
    EVALUATORS: "evaluator kind", DIALECTS: "dialect", EXPORTERS: "exporter", REDACTORS: "redactor"
}  # fmt: skip
PARTS_OF_EXPORTER = ("Settings", "open", "export")


def breaches(group: str, plugin: Any) -> Iterator[str]:
    """Sentences on what a loaded plug-in lacks to be one of its group."""
    if group == EVALUATORS:
        is_own = hasattr(plugin, "requires") and not is_built_in(plugin)  # else it is refused as no evaluator
        yield from class_breaches(plugin) if is_own else ()
    elif group == EXPORTERS:
        if lacking := [name for name in PARTS_OF_EXPORTER if not hasattr(plugin, name)]:
            parts = ", ".join(PARTS_OF_EXPORTER)
            yield f"{place_of(plugin)}: an exporter is a class with {parts}; write {', '.join(lacking)}"
        elif inspect.iscoroutinefunction(plugin.open) or inspect.isasyncgenfunction(plugin.open):
            yield f"{place_of(plugin)}: open is no context manager; write @classmethod, @asynccontextmanager above it"
        else:
            yield from call_breaches(plugin.__name__, plugin.export, "export(self, batch)")
    elif group == DIALECTS and isinstance(evidence := getattr(plugin, "evidence", ()), str):
        yield f"{place_of(plugin.read)}: evidence of the dialect {plugin.name!r} is one text; write ({evidence!r},)"
    elif group == DIALECTS and hasattr(plugin, "read"):
        yield from call_breaches(f"the dialect {plugin.name}", plugin.read, "read(span, records)", is_async=False)
