"""OpenLLMetry (Traceloop): its indexed messages, still widely deployed, and its workflow, task and tool spans.

The messages that its newer versions write by the conventions are read by `otel_genai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from collector.dialects.call import Call, Kind, Passage, Said, finish_of, listed
from collector.dialects.decode import as_dict, as_list, decoded, json_value, python_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.indexed_messages import COMPLETION, PROMPT, indexed_messages
from collector.dialects.messages import messages, system_and_rest
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, passage, passages_in, text_at, texts_in, usage_at, usage_of
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_KIND = "traceloop.span.kind"
_INPUT = "traceloop.entity.input"
_OUTPUT = "traceloop.entity.output"
_QUERY_RESULT = "db.query.result"

_KINDS: dict[str, Kind] = {"workflow": "workflow", "agent": "agent", "tool": "tool"}  # task: a step around others
_REQUESTS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "completion"), "model"),
    "embedding": "other",
    "rerank": "aside",
}
_OPERATIONS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), "model"),
    "execute_tool": "tool",
    "invoke_agent": "agent",
}


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that has indexed messages, a request type, or an entity."""
    attributes = span.attributes
    if span.scope == "litellm":
        return None  # uses the same names
    request = text_at(attributes, "llm.request.type")
    if request or any(key.startswith((PROMPT, COMPLETION)) for key in attributes):
        return _model(span, _REQUESTS.get(request or "chat", "model"))
    kind = text_at(attributes, _KIND)
    if kind is not None:
        operation = _OPERATIONS.get(text_at(attributes, "gen_ai.operation.name") or "")
        return _entity(span, operation or _KINDS.get(kind, "chain"))
    if "crewai.crew.result" in attributes:
        return _crew(span)
    results = [event.attributes for event in span.events if event.name == _QUERY_RESULT]
    if results:
        return Call(dialect="traceloop", kind="retrieval", passages=tuple(map(_result, results)))
    return None


def _model(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    encoded = span.scope.startswith("opentelemetry.instrumentation.bedrock")
    system, given = system_and_rest(indexed_messages(attributes, PROMPT, "user", encoded=encoded))
    output = listed(indexed_messages(attributes, COMPLETION, "assistant", encoded=encoded))
    if output and span.scope.startswith("opentelemetry.instrumentation.google_generativeai"):
        output = tuple(_without_nothing(output)) or None
    finish = output[0].finish if output else None
    return Call(
        dialect="traceloop",
        kind=kind,
        system=system,
        input=listed(given),
        output=output,
        finish=finish or finish_of(json_value(attributes.get("llm.response.finish_reason"))),
        error=failure(span, answered=output is not None or "gen_ai.output.messages" in attributes),
        model=text_at(attributes, "gen_ai.response.model", "llm.response.model", "gen_ai.request.model"),
        provider=text_at(attributes, "gen_ai.system"),
        usage=usage_at(attributes, _TOKENS_IN, _TOKENS_OUT) if kind == "model" else None,
        found={
            field: f"{beginning}*"
            for field, beginning, said in (("input", PROMPT, given), ("output", COMPLETION, output))
            if said
        },
    )


_NOTHING = re.compile(r"\A(?:None)+(?=[A-Z]|\Z)")


def _without_nothing(output: Sequence[Said]) -> Iterable[Said]:
    """Gemini's streams: chunks without a text were written as the word for nothing."""
    for said in output:
        text = _NOTHING.sub("", said.text)
        if text or said.calls or not said.text:
            yield said._replace(text=text)


_TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
_TOKENS_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens")


def _entity(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    given, came = attributes.get(_INPUT), json_value(attributes.get(_OUTPUT))
    if kind == "chain" and isinstance(given, str) and '"run_type": "prompt"' in given:
        return _template(given)
    if kind == "chain" and isinstance(given, str) and given.startswith(_LLAMAINDEX_REQUEST):
        return _llamaindex(span, given, came)
    if kind == "chain" and as_dict(came).keys() >= _LLAMAINDEX_COMPLETION:
        return _llamaindex(span, given, came)
    documents = _documents(came) if kind == "chain" else ()
    if documents:
        kind = "retrieval"
    elif {"tool_name", "raw_output"} <= as_dict(came).keys():  # LlamaIndex marks its tools as tasks
        kind = "tool"
    if "agno.team.name" in attributes:
        kind = "agent"
    if "crewai.task.description" in attributes:
        kind, given = "agent", given or attributes["crewai.task.description"]
    asked, answered = _sides(given, attributes.get(_OUTPUT), kind)
    return Call(
        dialect="traceloop",
        kind=kind,
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=failure(span, answered=answered.said is not None) if kind == "agent" else None,
        agent=text_at(attributes, "traceloop.entity.name") if kind in {"agent", "workflow"} else None,
        tool=_tool(span, given, came) if kind == "tool" else None,
        passages=documents,
        query=_query(given) if documents else None,
        found={field: key for field, key in (("input", _INPUT), ("output", _OUTPUT)) if key in attributes},
    )


_LLAMAINDEX_REQUEST = '{"messages": [{"role": '


_LLAMAINDEX_COMPLETION = {"text", "raw", "additional_kwargs"}


def _llamaindex(span: Span, given: Json, came: Json) -> Call:
    """LlamaIndex' calls of a model are tasks like any other: the request and the response tell what they are."""
    response = as_dict(came)
    if came is not None and "raw" not in response:
        return Call(dialect="traceloop", kind="chain")
    asked = messages(given).said if "message" in response or came is None else question_in(given).said or ()
    system, asked = system_and_rest(asked)
    answered = messages(response.get("message", response.get("text")), "assistant").said
    raw = as_dict(response.get("raw"))
    return Call(
        dialect="traceloop",
        kind="model",
        system=system,
        input=listed(asked),
        output=listed(answered),
        error=failure(span, answered=bool(answered)),
        model=text_at(raw, "model"),
        response_id=text_at(raw, "id"),
        usage=usage_of(raw.get("usage")),
        found={"input": _INPUT, **({"output": _OUTPUT} if answered else {})},
    )


def _crew(span: Span) -> Call:
    """A run of CrewAI's crew: its result is what the user got."""
    attributes = span.attributes
    return Call(
        dialect="traceloop",
        kind="workflow",
        output=answer_in(attributes["crewai.crew.result"]).said,
        agent=text_at(attributes, "crewai.crew.name"),
        found={"output": "crewai.crew.result"},
    )


def _template(given: str) -> Call:
    """LangChain's prompt templates: their inputs are what a prompt was filled with."""
    return Call(
        dialect="traceloop",
        variables=texts_in(as_dict(decoded(given)).get("inputs")),
        found={"variables": _INPUT},
    )


def _sides(given: Json, came: Json, kind: Kind) -> tuple[Side, Side]:
    if kind in {"agent", "workflow", "chain"}:
        return question_in(given), answer_in(json_value(came))
    if kind != "model":
        return Side(None), Side(None)
    asked, answered = messages(given), messages(came, "assistant")
    return (
        Side(listed(asked.said) if asked.shaped else None, asked.hole),
        Side(listed(answered.said) if answered.shaped else None, answered.hole),
    )


def _query(given: Json) -> str | None:
    asked = question_in(given).said
    return asked[-1].text if asked else None


def _documents(came: Json) -> tuple[Passage, ...]:
    """A task's output, if it is a list of documents: Traceloop has no other place for them."""
    items = [as_dict(decoded(each)) for each in as_list(came)]
    marks = {"id", "score", "metadata", "page_content", "doc_id", "node"}
    if items and all(marks & item.keys() and passage(item).text for item in items):
        return passages_in(came)
    return ()


def _result(attributes: Attributes) -> Passage:
    return passage({key.removeprefix(f"{_QUERY_RESULT}."): value for key, value in attributes.items()})


_AGNO_RESULT = re.compile(r"status='\w+' result=(.*?) error=(?=None|')", re.DOTALL)


def _agno_result(came: Json) -> Json:
    """What a tool gave, out of Agno's account of it."""
    found = _AGNO_RESULT.match(came) if isinstance(came, str) else None
    return came if found is None else python_value(found[1])


def _tool(span: Span, given: Json, came: Json) -> ToolCall:
    held = as_dict(decoded(given))
    asked: Json = held.get("kwargs") or held.get("args") or held
    if "input_str" in held:  # LangChain: the arguments' repr
        asked = arguments(held["input_str"])
    done = as_dict(came)
    name = (
        text_at(done, "tool_name") or text_at(span.attributes, "gen_ai.tool.name", "traceloop.entity.name") or span.name
    )
    output = done.get("raw_output", done.get("output", _agno_result(came)))
    said = messages(output, "tool").said if {"lc", "kwargs"} & as_dict(output).keys() else ()
    return ToolCall(
        id=text_at(span.attributes, "gen_ai.tool.call.id"),
        name=name,
        arguments=asked,
        result=decoded(said[-1].text if said else output),
    )


DIALECT = Dialect(
    name="traceloop",
    rank=240,
    read=read,
    evidence=(
        "traceloop.span.kind",
        "traceloop.entity.*",
        f"{PROMPT}*",
        f"{COMPLETION}*",
        "llm.request.type",
        "crewai.crew.result",
    ),
    events=frozenset({_QUERY_RESULT}),
    carries=Carries(
        libraries="OpenLLMetry and the Traceloop SDK, all generations",
        messages="gen_ai.prompt.N, gen_ai.completion.N (≤ 0.4x); by the conventions since",
        tools="messages, tool spans",
        retrieval="tasks that give documents, templates' inputs, vector databases' events",
        conversation="traceloop.association.properties.session_id, .thread_id, .chat_id",
        user="traceloop.association.properties.user_id",
    ),
)
