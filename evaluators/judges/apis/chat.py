"""OpenAI-compatible chat completions: `POST /chat/completions`."""

from evaluators.cases import Json
from evaluators.judges.apis.writing import WritingApi
from evaluators.judges.capabilities import Capabilities
from evaluators.judges.chats import Chat, without_system
from evaluators.judges.completions import completion_of
from evaluators.judges.requests import Request


def body(chat: Chat, request: Request, features: Capabilities, samples: int) -> dict[str, Json]:
    """The request's JSON."""
    body: dict[str, Json] = {"model": request.model, "messages": chat if features.system else without_system(chat)}
    if features.temperature:
        body["temperature"] = request.temperature
    if request.max_tokens is not None and features.limit is not None:
        body[features.limit] = request.max_tokens
    if alternatives := request.alternatives(features.top_logprobs):
        body |= {"logprobs": True, "top_logprobs": alternatives}
    if samples > 1 and features.multiple_choices:
        body["n"] = samples
    if features.format == "json_schema":
        described = {"name": request.form, "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    elif features.format == "json_object":
        body["response_format"] = {"type": "json_object"}
    for name in features.optional:
        body[name] = request.optional[name]
    return body | dict(request.extra)


CHAT = WritingApi(name="chat", path="/chat/completions", body=body, completion=completion_of, takes_cache_key=True)
