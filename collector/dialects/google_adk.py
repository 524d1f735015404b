"""Google's Agent Development Kit, generation 1: raw Gemini requests and responses under `gcp.vertex.agent.`.

Generation 2 follows the conventions and is read by `otel_genai`.
"""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_text, find_usage
from collector.dialects.call import Call, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import ChatTranscript, parse_messages, split_system_prompt
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_REQUEST = "gcp.vertex.agent.llm_request"
_RESPONSE = "gcp.vertex.agent.llm_response"
_ARGUMENTS = "gcp.vertex.agent.tool_call_args"
_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
_SCOPE = "gcp.vertex.agent"
_EMPTY: tuple[Json, ...] = (None, "", "{}", {}, "N/A")


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a tool's execution or a model call; None for other spans."""
    attributes = span.attributes
    if attributes.get(_ARGUMENTS) not in _EMPTY and not span.name.startswith("execute_tool (merged"):
        return _read_tool(span)
    request, response = attributes.get(_REQUEST), attributes.get(_RESPONSE)
    if span.name.startswith("execute_tool") or (request in _EMPTY and response in _EMPTY):
        return _read_failed_call(span)
    prompt, answer = _parse_structured(request, "user"), _parse_structured(response, "assistant")
    system, input_messages = split_system_prompt(prompt.messages)
    output_messages = as_messages(answer.messages)
    response_fields = as_dict(decode(response))
    return Call(
        kind="model",
        system=system,
        input=as_messages(input_messages),
        output=output_messages,
        input_incomplete=prompt.incomplete or find_redaction(request),
        output_incomplete=answer.incomplete or find_redaction(response),
        finish_reason=parse_finish_reason(response_fields.get("finish_reason")),
        error=find_error(span, answered=output_messages is not None)
        or (find_text(response_fields, "error_message", "error_code") if output_messages is None else None),
        model=find_text(as_dict(decode(request)), "model"),
        usage=find_usage(
            as_dict(response_fields.get("usage_metadata")),
            ("prompt_token_count", "promptTokenCount"),
            ("candidates_token_count", "candidatesTokenCount"),
        ),
        sources={
            **({"input": _REQUEST} if input_messages else {}),
            **({"output": _RESPONSE} if output_messages else {}),
        },
    )


def _read_failed_call(span: Span) -> Call | None:
    """Read a failed call, which has no attributes: only its name identifies it."""
    if not (span.failed and span.name == "call_llm" and span.scope == _SCOPE):
        return None
    return Call(kind="model", error=find_error(span, answered=False))


def _parse_structured(value: Json, role: str) -> ChatTranscript:
    transcript = parse_messages(value, role) if value not in _EMPTY else ChatTranscript(())
    return transcript if transcript.is_structured else ChatTranscript(())


def _read_tool(span: Span) -> Call:
    attributes = span.attributes
    response = decode(attributes.get(_TOOL_RESPONSE))
    response_fields = as_dict(response)
    result = response_fields["result"] if response_fields.keys() == {"result"} else response
    call = ToolCall(
        id=find_text(attributes, "gen_ai.tool.call.id", "gcp.vertex.agent.tool_call_id"),
        name=find_text(attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool "),
        arguments=decode(attributes.get(_ARGUMENTS)),
        result=decode(result) if result not in (None, "", {}, "<not specified>") else None,
    )
    return Call(kind="tool", tool=call, sources={"arguments": _ARGUMENTS, "result": _TOOL_RESPONSE})


DIALECT = Dialect(
    name="google_adk",
    rank=250,
    read=read,
    evidence=(_REQUEST, _RESPONSE, _ARGUMENTS, _TOOL_RESPONSE),
    scopes=(_SCOPE,),
    coverage=Coverage(
        libraries="Google ADK 1 (generation 2: conventions)",
        messages="raw Gemini requests and responses",
        tools="messages, tool spans",
        conversation="gen_ai.conversation.id, gcp.vertex.agent.session_id",
    ),
)
