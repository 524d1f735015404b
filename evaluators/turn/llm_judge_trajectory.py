"""A judge's view of how an agent went about its task."""

from typing import ClassVar, Self

from pydantic import model_validator

from evaluators.asking.judge_input import shorten_all, to_json_value
from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.rating import RATING_PROMPTS, NonBlank, Rating
from evaluators.prompts import check_placeholders, fill, load
from evaluators.results import Score
from evaluators.scale import Scale

_PLACEHOLDERS = ("AgentRunHistory", "ExpectedAgentBehavior", "UserOrSyntheticInput")


class LLMJudgeTrajectory(ReadingSettings, Rating, Evaluator[Turn]):
    """How well an agent's run follows the expected behaviour, from 0 to 100 by a judge.

    The run is the history, the request, each tool call with arguments and result, and the answer.
    """

    kind: ClassVar[str] = "llm_judge_trajectory"
    prompts: ClassVar[tuple[str, ...]] = ("llm_judge_trajectory.txt", "llm_judge_trajectory_frame.txt", *RATING_PROMPTS)
    default_scale: ClassVar[Scale] = Scale(0, 100)
    example: ClassVar[Example] = {"expected_agent_behavior": "Looks up the order before it promises a refund."}

    prompt: str | None = None
    """Instructions for the judge; the kind's own prompt if left out."""
    expected_agent_behavior: NonBlank | None = None
    """How the agent should go about its task."""
    expected_agent_behavior_attribute: NonBlank | None = None
    """The turn's attribute that holds this text instead."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.expected_agent_behavior is None) == (self.expected_agent_behavior_attribute is None):
            raise ValueError("expected_agent_behavior and expected_agent_behavior_attribute: give exactly one of them")
        check_placeholders(self.prompt, required=("AgentRunHistory", "ExpectedAgentBehavior"), known=_PLACEHOLDERS)
        return self

    @property
    def requires(self) -> frozenset[str]:
        """The request, and the attribute with the expected behaviour if it is configured."""
        attribute = self.expected_agent_behavior_attribute
        return frozenset({"input", *([f"attributes.{attribute}"] if attribute else [])})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        behaviour = self.expected_agent_behavior
        values = {
            "AgentRunHistory": "`agent_run_history`",
            "UserOrSyntheticInput": "`input`",
            "ExpectedAgentBehavior": f"The text “{behaviour}”" if behaviour else "`expected_agent_behavior`",
        }
        prompt = fill(self.prompt or load("llm_judge_trajectory.txt"), values).strip()
        instructions = fill(load("llm_judge_trajectory_frame.txt"), {"prompt": prompt, "rating": self.form})
        content: dict[str, Json] = {"agent_run_history": run_history(case), "input": case.input}
        if self.expected_agent_behavior_attribute is not None:
            content["expected_agent_behavior"] = to_json_value(case.attributes[self.expected_agent_behavior_attribute])
        return await self.rate(judge, instructions, shorten_all(content, self.longest_text, "agent_run_history"))


def run_history(case: Turn) -> list[Json]:
    """The events of a turn, in order: the history, the request, the tool calls, the answer."""
    events: list[Json] = [to_json_value(message) for message in case.history]
    events.append({"role": "user", "content": case.input})
    events += [{"role": "tool", **to_json_value(call)} for call in case.tools_called]
    if case.error is not None:
        events.append({"role": "application", "error": case.error})
    if case.actual_output is not None:
        events.append({"role": "assistant", "content": case.actual_output})
    return events
