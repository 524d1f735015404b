"""Plans that agents write down by a tool: to-do lists and numbered steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from evaluators.cases import Json, ToolCall
from evaluators.texts.paths import parse_json_or_text

PLAN_TOOLS = (
    "write_todos",
    "TodoWrite",
    "todo_write",
    "write_todo_list",
    "manage_todo_list",
    "update_plan",
    "create_plan",
    "write_plan",
    "set_plan",
    "make_plan",
    "plan",
    "planning",
    "submit_plan",
)
"""Tools for plans as agents and libraries call them: deep agents, coding agents, planners."""

MOST_STEPS = 50

_LISTS = ("todos", "steps", "plan", "tasks", "items", "todo_list", "todoList")
_TEXTS = ("content", "step", "task", "title", "description", "text", "name", "goal")
_ENTRY = re.compile(r"[ \t]{0,20}(?:[-*\u2022]|\d{1,3}[.)])[ \t]{1,20}(?:\[[ xX]\] )?(\S.{0,1000})")


def find_plan(calls: Sequence[ToolCall], tools: Iterable[str] = PLAN_TOOLS) -> Sequence[str]:
    """The steps that an agent wrote down, each once, in the order in which they first were on its list; 50 at most."""
    names = {name.casefold() for name in tools}
    steps = dict.fromkeys(
        " ".join(step.split()) for call in calls if call.name.casefold() in names for step in _steps_of(call.arguments)
    )
    return [step for step in steps if step][:MOST_STEPS]


def _steps_of(value: Json) -> Iterator[str]:
    value = parse_json_or_text(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Json]", value)
        value = next((fields[name] for name in _LISTS if fields.get(name)), None)
        value = parse_json_or_text(value) if isinstance(value, str) else value
    if isinstance(value, str):
        yield from (match.group(1) for line in value.splitlines() if (match := _ENTRY.match(line)))
    elif isinstance(value, list):
        for entry in cast("list[Json]", value):
            yield from _text_of(entry)


def _text_of(step: Json) -> Iterator[str]:
    if isinstance(step, Mapping):
        fields = cast("Mapping[str, Json]", step)
        step = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), None)
    if isinstance(step, str):
        yield step[:1000]
