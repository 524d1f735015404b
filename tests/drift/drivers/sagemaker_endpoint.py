"""A model on SageMaker through OpenLLMetry: requests and answers are whatever the endpoint's container takes.

packages: boto3 opentelemetry-instrumentation-sagemaker
"""

from __future__ import annotations

import json

from scenario_python import request, scenario, tracing

provider = tracing()

from opentelemetry.instrumentation.sagemaker import SageMakerInstrumentor  # noqa: E402

SageMakerInstrumentor().instrument(tracer_provider=provider)

import boto3  # noqa: E402
from botocore.config import Config  # noqa: E402

client = boto3.client(
    service_name="sagemaker-runtime", region_name="eu-west-1", endpoint_url=scenario.origin, aws_access_key_id="none",
    aws_secret_access_key="none", config=Config(retries={"max_attempts": 0}),
)  # fmt: skip


def ask(messages: list[dict], **options: object) -> dict:
    body = json.dumps({"messages": messages, "max_tokens": 200, **options})
    answer = client.invoke_endpoint(EndpointName="kayak-chat", ContentType="application/json", Body=body)
    return json.loads(answer["Body"].read())["choices"][0]["message"]


def stream(messages: list[dict]) -> str:
    body = json.dumps({"messages": messages, "stream": True})
    name = {"EndpointName": "kayak-chat", "ContentType": "application/json"}
    answer = client.invoke_endpoint_with_response_stream(**name, Body=body)
    parts = [json.loads(each["PayloadPart"]["Bytes"]) for each in answer["Body"]]
    return "".join(each["choices"][0]["delta"]["content"] for each in parts)


history: list[dict] = [{"role": "system", "content": scenario.system}]
for step in ("turn1", "turn2", "turn3"):
    with request(step):
        history.append({"role": "user", "content": scenario.questions[step]})
        if step == "turn2":
            history.append({"role": "assistant", "content": stream(history)})
            continue
        message = ask(history, tools=[scenario.tool_definition])
        if message.get("tool_calls"):
            result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"]}
            history += [message, {**result, "content": json.dumps(scenario.tool["result"])}]
            message = ask(history, tools=[scenario.tool_definition])
        history.append(message)
with request("rag"):
    ask([{"role": "system", "content": scenario.rag_system}, {"role": "user", "content": scenario.rag_prompt}])
with request("fail"):
    try:
        ask([{"role": "system", "content": scenario.system}, {"role": "user", "content": scenario.questions["fail"]}])
    except Exception as error:
        print(json.dumps({"failed": type(error).__name__}))
provider.shutdown()
