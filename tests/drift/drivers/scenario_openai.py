"""The scenario through OpenAI's own client, for those who instrument it: once for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import openai
from scenario_python import request, scenario


def call_tool(_name: str, arguments: dict) -> dict:
    """The tool's result."""
    return scenario.results[arguments["place"]]


def talk(
    client: openai.OpenAI | None = None,
    *,
    steps: tuple[str, ...] = ("turn1", "turn2", "turn3"),
    around: Callable[[str], AbstractContextManager[Any]] = request,
    tool: Callable[[str, dict], dict] = call_tool,
    options: Callable[[str], dict] = lambda _step: {},
) -> None:
    """Turns with a stream and tools, a question about documents, a failure; each step may add options to its requests."""
    client = client or openai.OpenAI(base_url=scenario.base, api_key="none", max_retries=0)
    history: list = [{"role": "system", "content": scenario.system}]
    for step in steps:
        with around(step):
            history.append({"role": "user", "content": scenario.questions[step]})
            tools = {"tools": [scenario.tool_definition]} if step in ("turn3", "parallel") else {}
            for _ in range(2):
                message = _complete(client, step, history, {**tools, **options(step)})
                history.append(message)
                for call in message.get("tool_calls", ()):
                    function = call["function"]
                    output = json.dumps(tool(function["name"], json.loads(function["arguments"])))
                    history.append({"role": "tool", "tool_call_id": call["id"], "content": output})
                if not message.get("tool_calls"):
                    break
    for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
        question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        try:
            with around(step):
                _complete(client, step, messages, options(step))
        except openai.OpenAIError as error:
            print(json.dumps({"failed": type(error).__name__}))


def _complete(client: openai.OpenAI, step: str, messages: list, options: dict) -> dict:
    completions = client.with_options(max_retries=2 if step == "retry" else client.max_retries).chat.completions
    if step not in ("turn2", "parallel"):
        answer = completions.create(model="gpt-4o-mini", messages=messages, **options).choices[0].message
        return {**answer.model_dump(exclude_none=True), "content": answer.content or ""}
    options = {**options, "stream": True, "stream_options": {"include_usage": True}}
    text, calls = "", {}
    for piece in completions.create(model="gpt-4o-mini", messages=messages, **options):
        for choice in piece.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                calls[call.index] = {"id": call.id, "type": "function", "function": call.function.model_dump()}
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


HARDER = ("turn1", "turn2", "turn3", "parallel", "retry")
"""The turns of the talk with two tools at once and a request that is refused once."""
