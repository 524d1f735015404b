"""Whether an agent followed its plan.

Plans that agents write down by a tool: to-do lists and numbered steps.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, cast

from pydantic import Field

from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Json, ToolCall, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import ADDED_LATER, Example
from evaluators.mechanisms.item_verdicts import CallVerdicts, CallVerdictSpec, RatioSpec
from evaluators.mechanisms.rating import NonBlank
from evaluators.results import SkipReason
from evaluators.texts.paths import parse_json_or_text

PLAN_TOOLS = (
    "write_todos", "TodoWrite", "todo_write", "write_todo_list", "manage_todo_list", "update_plan", "create_plan",
    "write_plan", "set_plan", "make_plan", "plan", "planning", "submit_plan",
)  # fmt: skip
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


class PlanAdherence(ReadingSettings, CallVerdicts):
    """The share of the steps of a plan that an agent followed.

    Without a configured plan, the plan is the agent's own: all steps that it wrote down by a tool for plans or to-do
    lists. A turn in which the agent wrote none is skipped (`missing_field: plan`). The judge gives each step a verdict
    by the tool calls and the answer; an undecided step counts as not followed.
    """

    kind: ClassVar[str] = "plan_adherence"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input", "actual_output"})
    spec: ClassVar[CallVerdictSpec] = CallVerdictSpec(
        "plan_adherence_verdicts.txt",
        RatioSpec(noun="steps", predicate="were followed"),
        ("input", "tools_called", "actual_output"),
    )
    example: ClassVar[Example] = {"plan": ["Look the order up.", "Check the refund policy.", "Answer."]}

    plan: tuple[NonBlank, ...] = Field(default=(), max_length=50)
    """The steps, in order; if left out, the agent's own."""
    plan_tools: Annotated[tuple[NonBlank, ...], ADDED_LATER] = PLAN_TOOLS
    """Names of the tools by which the agent writes its plan down."""

    def items(self, case: Turn) -> Sequence[Json]:
        """Every step of the plan."""
        steps = self.plan or find_plan(case.tools_called, self.plan_tools)
        if not steps:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("plan"))
        return list(steps)
