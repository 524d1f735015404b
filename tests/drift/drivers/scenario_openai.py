"""The scenario through OpenAI's own client, for those who instrument it: once for all of them."""

from __future__ import annotations

import json

import openai
from scenario_python import request, scenario


def talk() -> None:
    """Three turns with a stream and a tool, a question about documents, a failure."""
    completions = openai.OpenAI(base_url=scenario.base, api_key="none", max_retries=0).chat.completions
    history: list = [{"role": "system", "content": scenario.system}]
    for step in ("turn1", "turn2", "turn3"):
        with request(step):
            history.append({"role": "user", "content": scenario.questions[step]})
            if step == "turn2":
                options = {"stream": True, "stream_options": {"include_usage": True}}
                pieces = completions.create(model="gpt-4o-mini", messages=history, **options)
                text = "".join((each.choices[0].delta.content or "") for each in pieces if each.choices)
                history.append({"role": "assistant", "content": text})
                continue
            tools = {"tools": [scenario.tool_definition]} if step == "turn3" else {}
            answer = completions.create(model="gpt-4o-mini", messages=history, **tools).choices[0].message
            for call in answer.tool_calls or ():
                history.append({**answer.model_dump(exclude_none=True), "content": ""})
                output = json.dumps(scenario.tool["result"])
                history.append({"role": "tool", "tool_call_id": call.id, "content": output})
                answer = completions.create(model="gpt-4o-mini", messages=history, **tools).choices[0].message
            history.append({"role": "assistant", "content": answer.content})
    for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
        question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        with request(step):
            try:
                completions.create(model="gpt-4o-mini", messages=messages)
            except openai.OpenAIError as error:
                print(json.dumps({"failed": type(error).__name__}))
