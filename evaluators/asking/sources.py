"""The sources of an application's answer: the passages that it retrieved, and the results of its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from evaluators.asking.judge_input import to_json_value
from evaluators.cases import Json, Turn
from evaluators.errors import NotApplicable
from evaluators.skip_reasons import SkipReason
from evaluators.texts.paths import parse_json_or_text


def find_sources(case: Turn) -> Mapping[str, Sequence[Json]]:
    """The sources by the fields they are in: passages, and calls of tools that returned something.

    Raises:
        NotApplicable: there are none.
    """
    tools: list[Json] = [to_json_value(call) for call in case.tools_called if call.result not in (None, "")]
    sources: dict[str, Sequence[Json]] = {"retrieval_context": [*case.retrieval_context], "tools_called": tools}
    sources = {name: values for name, values in sources.items() if values}
    if not sources:
        raise NotApplicable(SkipReason.MISSING_FIELD.text("retrieval_context"))
    return sources


def list_results(case: Turn) -> Sequence[Json]:
    """The results of the tools, one by one: a list counts as many results as it has items."""
    return [result for call in case.tools_called for result in _split(call.result)]


def _split(result: Json) -> Sequence[Json]:
    value = parse_json_or_text(result) if isinstance(result, str) else result
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Json]", value)
        lists = [cast("list[Json]", field) for field in fields.values() if isinstance(field, list)]
        value = lists[0] if len(lists) == 1 else fields
    if isinstance(value, list):
        return cast("list[Json]", value)
    return () if value in (None, "") else (value,)
