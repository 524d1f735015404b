"""Whether an agent called its tools with the arguments that they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from evaluators.agents.argument_check import find_problems
from evaluators.cases import Json, ToolCall, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.skip_reasons import SkipReason
from evaluators.texts.paths import parse_json_or_text

_MOST_PROBLEMS = 5


class ArgumentSchema(Evaluator[Turn]):
    """The share of the tool calls whose arguments fit the definition of the tool that was offered.

    Arguments are checked against the JSON Schema in the trace, `$ref`, `oneOf`, `minimum` and `pattern` included. An
    argument that the schema does not list is wrong, too, and an optional one may be null. A call is not counted if the
    trace does not tell what its tool takes, or what it was called with; with `only_offered` a call of a tool that was
    not offered is wrong. A turn without calls gets 1; a turn without a comparable call is skipped (`missing_field:
    tools_offered`). For the content of the arguments use `argument_grounding`.
    """

    kind: ClassVar[str] = "argument_schema"
    needs_judge: ClassVar[bool] = False
    revision: ClassVar[int] = 2

    only_offered: bool = False
    """Whether a call of a tool that was not offered is wrong."""

    @property
    def requires(self) -> frozenset[str]:
        """Nothing: a turn without calls has no wrong ones."""
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        offered = {tool.name: tool.parameters for tool in case.tools_offered}
        numbered = list(enumerate(case.tools_called, start=1))
        strangers = [(number, call) for number, call in numbered if offered and call.name not in offered]
        compared = [
            (number, call, problems) for number, call in numbered if (problems := _problems(call, offered)) is not None
        ]
        total = len(compared) + (len(strangers) if self.only_offered else 0)
        if numbered and not total:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("tools_offered"))
        wrong: list[Json] = [
            {"call": number, "tool": call.name, "problems": problems} for number, call, problems in compared if problems
        ]
        not_offered: list[Json] = ["was not offered"]
        if self.only_offered:
            wrong += [{"call": number, "tool": call.name, "problems": not_offered} for number, call in strangers]
        first = "".join(f"; {call['tool']}: {call['problems'][0]}" for call in wrong[:3])
        return Score(
            value=1 - len(wrong) / total if total else 1.0,
            explanation=f"{total - len(wrong)} of {total} calls fit their definitions{first}",
            details={"compared": total, "wrong": wrong[:50], "not_offered": len(strangers)},
        )


def _problems(call: ToolCall, offered: Mapping[str, Json]) -> list[Json] | None:
    """The first few faults of a call's arguments; None if they cannot be compared."""
    schema: Json = offered.get(call.name)
    arguments = parse_json_or_text(call.arguments) if isinstance(call.arguments, str) else call.arguments
    if arguments in (None, ""):
        arguments = dict[str, Json]()
    if not isinstance(schema, Mapping) or not isinstance(arguments, Mapping):
        return None  # a text that is no JSON may be a cut one, or a redacted one
    fields = cast("Mapping[str, Json]", arguments)
    if set(fields) == {"args", "kwargs"} and isinstance(fields["kwargs"], Mapping) and not fields["args"]:
        fields = cast("Mapping[str, Json]", fields["kwargs"])  # a call of Python
    return cast("list[Json] | None", find_problems(fields, cast("Mapping[str, Json]", schema), _MOST_PROBLEMS))
