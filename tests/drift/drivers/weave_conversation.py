"""W&B Weave's conversations: the application records its turns, model calls and tools with Weave's SDK.

packages: weave
"""

from __future__ import annotations

import json

from scenario_python import scenario, tracing

provider = tracing()

import openai  # noqa: E402
from weave.conversation import (  # noqa: E402
    Message,
    TextPart,
    ToolCallPart,
    Usage,
    start_conversation,
    start_llm,
    start_tool,
    start_turn,
)

client = openai.OpenAI(base_url=scenario.base, api_key="none", max_retries=0)


def complete(messages: list[dict], *, stream: bool = False) -> dict:
    """A model call, recorded as an application does it."""
    system = [each["content"] for each in messages if each["role"] == "system"]
    with start_llm(model="gpt-4o-mini", provider_name="openai", system_instructions=system) as llm:
        llm.input_messages = [_as_message(each) for each in messages if each["role"] != "system"]
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        response = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=[scenario.tool_definition], **options
        )
        if stream:
            chunks = list(response)
            texts = [each.choices[0].delta.content or "" for each in chunks if each.choices]
            message, usage = {"role": "assistant", "content": "".join(texts)}, chunks[-1].usage
        else:
            message, usage = response.choices[0].message.model_dump(exclude_none=True), response.usage
        llm.record(
            output_messages=[_as_message(message)],
            usage=Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens),
        )
    return message


def _as_message(message: dict) -> Message:
    if message["role"] == "tool":
        return Message(role="tool", content=message["content"], tool_call_id=message["tool_call_id"])
    calls = [
        ToolCallPart(id=each["id"], name=each["function"]["name"], arguments=each["function"]["arguments"])
        for each in message.get("tool_calls", ())
    ]
    texts = [TextPart(content=message["content"])] if message.get("content") else []
    return Message(role=message["role"], parts=[*texts, *calls])


def talk(conversation: str, system: str, steps: tuple[str, ...]) -> None:
    history = [{"role": "system", "content": system}]
    attributes = {"user.id": scenario.user}
    with start_conversation(agent_name="borealis", conversation_id=conversation, attributes=attributes):
        for step in steps:
            question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
            history.append({"role": "user", "content": question})
            try:
                with start_turn(user_message=question):
                    message = complete(history, stream=step == "turn2")
                    for call in message.get("tool_calls", ()):
                        history.append(message)
                        arguments = call["function"]["arguments"]
                        with start_tool(name="get_wind", arguments=arguments, tool_call_id=call["id"]) as tool:
                            tool.result = scenario.tool["result"]
                        content = json.dumps(scenario.tool["result"])
                        history.append({"role": "tool", "tool_call_id": call["id"], "content": content})
                        message = complete(history)
                    history.append(message)
            except openai.InternalServerError as error:
                print(json.dumps({"failed": type(error).__name__}))


talk(scenario.conversation, scenario.system, ("turn1", "turn2", "turn3"))
talk(scenario.conversations["rag"], scenario.rag_system, ("rag",))
talk(scenario.conversations["fail"], scenario.system, ("fail",))
provider.shutdown()
