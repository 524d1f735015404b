"""Gemini on Vertex AI through the Google Gen AI SDK and OpenInference: a chat that calls the tool by hand.

packages: google-genai openinference-instrumentation-google-genai
"""

from __future__ import annotations

import json

from scenario_python import request, scenario, tracing

provider = tracing()

from google import genai  # noqa: E402
from google.genai import types  # noqa: E402
from google.oauth2.credentials import Credentials  # noqa: E402
from openinference.instrumentation.google_genai import GoogleGenAIInstrumentor  # noqa: E402

GoogleGenAIInstrumentor().instrument(tracer_provider=provider)


client = genai.Client(
    vertexai=True, project="kayaks", location="europe-west1", credentials=Credentials("none"),
    http_options=types.HttpOptions(base_url=scenario.origin, retry_options=types.HttpRetryOptions(attempts=1)),
)  # fmt: skip
properties = {each: types.Schema(type="STRING") for each in ("place", "day")}
WIND = types.FunctionDeclaration(
    name="get_wind", description="Wind forecast for a place.",
    parameters=types.Schema(type="OBJECT", properties=properties, required=[*properties]),
)  # fmt: skip


def options(system: str) -> types.GenerateContentConfig:
    tools = [types.Tool(function_declarations=[WIND])]
    return types.GenerateContentConfig(system_instruction=system, tools=tools)


chat = client.chats.create(model="gemini-2.5-flash", config=options(scenario.system))
for step in ("turn1", "turn2", "turn3"):
    with request(step):
        if step == "turn2":
            "".join(each.text or "" for each in chat.send_message_stream(scenario.questions[step]))
            continue
        answer = chat.send_message(scenario.questions[step])
        for call in answer.function_calls or ():
            chat.send_message(types.Part.from_function_response(name=call.name, response=scenario.tool["result"]))
for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
    with request(step):
        try:
            client.models.generate_content(
                model="gemini-2.5-flash", config=types.GenerateContentConfig(system_instruction=system),
                contents=scenario.rag_prompt if step == "rag" else scenario.questions[step],
            )  # fmt: skip
        except Exception as error:
            print(json.dumps({"failed": type(error).__name__}))
provider.shutdown()
