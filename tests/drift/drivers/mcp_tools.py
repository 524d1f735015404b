"""A tool on an MCP server in a process of its own, called by a client; the SDK's own traces go on in the server.

packages: mcp openinference-instrumentation-openai
"""

from __future__ import annotations

import asyncio
import json
import sys

from scenario_python import request, scenario, tracing

provider = tracing()


def serve() -> None:
    """The server's process."""
    from mcp.server import MCPServer

    server = MCPServer("forecasts")

    @server.tool()
    def get_wind(place: str, day: str) -> dict:
        """Wind forecast for a place."""
        return scenario.tool["result"]

    server.run("stdio")
    provider.shutdown()


async def main() -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    model = AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0).chat.completions
    import os

    parameters = StdioServerParameters(command=sys.executable, args=[__file__, "serve"], env=dict(os.environ))
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        tools = [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": each.input_schema},
            }
            for each in (await session.list_tools()).tools
        ]
        history: list = [{"role": "system", "content": scenario.system}]
        for step in ("turn1", "turn2", "turn3"):
            with request(step):
                history.append({"role": "user", "content": scenario.questions[step]})
                if step == "turn2":
                    text = ""
                    options = {"stream": True, "stream_options": {"include_usage": True}}
                    async for each in await model.create(model="gpt-4o-mini", messages=history, **options):
                        text += (each.choices[0].delta.content or "") if each.choices else ""
                    history.append({"role": "assistant", "content": text})
                    continue
                answer = (await model.create(model="gpt-4o-mini", messages=history, tools=tools)).choices[0].message
                for call in answer.tool_calls or ():
                    history.append(answer.model_dump(exclude_none=True))
                    output = await session.call_tool(call.function.name, json.loads(call.function.arguments))
                    history.append({"role": "tool", "tool_call_id": call.id, "content": output.content[0].text})
                    answer = (await model.create(model="gpt-4o-mini", messages=history, tools=tools)).choices[0].message
                history.append({"role": "assistant", "content": answer.content})
        for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
            question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            with request(step):
                try:
                    await model.create(model="gpt-4o-mini", messages=messages)
                except Exception as error:
                    print(json.dumps({"failed": type(error).__name__}))
    provider.shutdown()


if sys.argv[1:] == ["serve"]:
    serve()
else:
    asyncio.run(main())
