"""Google's Agent Development Kit, generation 1: raw Gemini requests and responses under `gcp.vertex.agent.`.

Generation 2 follows the conventions and is read by `otel_genai`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, finish_of, listed
from collector.dialects.decode import as_dict, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import Heard, messages, system_and_rest
from collector.dialects.reading import failure, masked_hole, text_at, usage_at
from collector.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_REQUEST = "gcp.vertex.agent.llm_request"
_RESPONSE = "gcp.vertex.agent.llm_response"
_ARGUMENTS = "gcp.vertex.agent.tool_call_args"
_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
_SCOPE = "gcp.vertex.agent"
_EMPTY: tuple[Json, ...] = (None, "", "{}", {}, "N/A")


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a tool's execution or a model call; spans that hold neither are for others to read."""
    attributes = span.attributes
    if attributes.get(_ARGUMENTS) not in _EMPTY and not span.name.startswith("execute_tool (merged"):
        return _tool(span)
    request, response = attributes.get(_REQUEST), attributes.get(_RESPONSE)
    if span.name.startswith("execute_tool") or (request in _EMPTY and response in _EMPTY):
        return _failed(span)
    heard, answered = _shaped(request, "user"), _shaped(response, "assistant")
    system, given = system_and_rest(heard.said)
    output = listed(answered.said)
    held = as_dict(decoded(response))
    return Call(
        dialect="google_adk",
        kind="model",
        system=system,
        input=listed(given),
        output=output,
        input_hole=heard.hole or masked_hole(request),
        output_hole=answered.hole or masked_hole(response),
        finish=finish_of(held.get("finish_reason")),
        error=_error(span, held, answered=output is not None),
        model=_model(request),
        usage=usage_at(
            as_dict(held.get("usage_metadata")),
            ("prompt_token_count", "promptTokenCount"),
            ("candidates_token_count", "candidatesTokenCount"),
        ),
        found={
            field: key for field, key, value in (("input", _REQUEST, given), ("output", _RESPONSE, output)) if value
        },
    )


def _failed(span: Span) -> Call | None:
    """A failed call has no attributes at all: only its name tells what it was."""
    if not (span.failed and span.name == "call_llm" and span.scope == _SCOPE):
        return None
    return Call(dialect="google_adk", kind="model", error=failure(span, answered=False))


def _shaped(value: Json, role: str) -> Heard:
    heard = messages(value, role) if value not in _EMPTY else Heard(())
    return heard if heard.shaped else Heard(())


def _error(span: Span, held: dict[str, Json], *, answered: bool) -> str | None:
    error = failure(span, answered=answered)
    if error is None and not answered:
        return text_at(held, "error_message", "error_code")
    return error


def _model(request: Json) -> str | None:
    return text_at(as_dict(decoded(request)), "model")


def _tool(span: Span) -> Call:
    attributes = span.attributes
    response = decoded(attributes.get(_TOOL_RESPONSE))
    held = as_dict(response)
    result = held["result"] if held.keys() == {"result"} else response
    call = ToolCall(
        id=text_at(attributes, "gen_ai.tool.call.id", "gcp.vertex.agent.tool_call_id"),
        name=text_at(attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool "),
        arguments=decoded(attributes.get(_ARGUMENTS)),
        result=decoded(result) if result not in _EMPTY_RESULTS else None,
    )
    return Call(dialect="google_adk", kind="tool", tool=call, found={"arguments": _ARGUMENTS, "result": _TOOL_RESPONSE})


_EMPTY_RESULTS: tuple[Json, ...] = (None, "", {}, "<not specified>")


DIALECT = Dialect(
    name="google_adk",
    rank=250,
    read=read,
    evidence=(_REQUEST, _RESPONSE, _ARGUMENTS, _TOOL_RESPONSE),
    scopes=(_SCOPE,),
    carries=Carries(
        libraries="Google ADK 1 (generation 2: conventions)",
        messages="raw Gemini requests and responses",
        tools="messages, tool spans",
        conversation="gen_ai.conversation.id, gcp.vertex.agent.session_id",
    ),
)
