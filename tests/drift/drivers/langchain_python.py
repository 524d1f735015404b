"""LangChain for Python through OpenInference: models and a tool, without an agent.

packages: langchain-openai openinference-instrumentation-langchain
"""

from __future__ import annotations

import json

from scenario_python import request, scenario, tracing

provider = tracing()

from openinference.instrumentation.langchain import LangChainInstrumentor  # noqa: E402

LangChainInstrumentor().instrument(tracer_provider=provider)

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402

model = ChatOpenAI(
    model="gpt-4o-mini",
    base_url=scenario.base,
    api_key="none",
    max_retries=0,
    stream_usage=True,
    use_responses_api=False,
)
history: list = [SystemMessage(scenario.system)]
for step in ("turn1", "turn2", "turn3"):
    with request(step):
        history.append(HumanMessage(scenario.questions[step]))
        if step == "turn2":
            history.append(AIMessage("".join(each.text for each in model.stream(history))))
            continue
        asked = model.bind_tools([scenario.tool_definition]) if step == "turn3" else model
        answer = asked.invoke(history)
        history.append(answer)
        for call in answer.tool_calls:
            history.append(ToolMessage(json.dumps(scenario.tool["result"]), tool_call_id=call["id"]))
        if answer.tool_calls:
            history.append(asked.invoke(history))
for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
    question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
    with request(step):
        try:
            model.invoke([SystemMessage(system), HumanMessage(question)])
        except Exception as error:
            print(json.dumps({"failed": type(error).__name__}))
provider.shutdown()
