"""One parser for every shape of chat messages.

Parts of the OpenTelemetry conventions, OpenAI chat and Responses, Anthropic blocks, Gemini contents, Bedrock Converse,
the AI SDK, LangChain's serialised objects, Haystack, LlamaIndex, Ollama; as values, as JSON, as JSON cut in the middle,
as Python reprs, or as plain text. Attributes do not declare their shape, so the shape itself decides.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from collector.dialects.attributes import find_text
from collector.dialects.call import ChatMessage, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, as_list, parse_document, parse_printed_fields, parse_repr
from collector.dialects.media import find_beside
from collector.dialects.parts import (
    HIDDEN_TYPES,
    PART_KEYS,
    PART_TYPES,
    JsonObject,
    MessageParts,
    find_tool_calls,
    make_tool_result,
    parse_parts,
    parse_tool_result,
)
from collector.dialects.plain_messages import read_plain_messages
from evaluators.cases import Incomplete, Json, ToolCall

MAX_DEPTH = 8
"""How deep lists and wrappers around messages may nest."""

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk", "usermessage"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "aimessage", "aimessagechunk", "model", "bot", "chatbot", "assistantmessage"), "assistant"
    ),
    **dict.fromkeys(("system", "systemmessage", "developer"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "function", "functionmessage", "functionexecutionresultmessage"), "tool"),
    "tool_execution_result": "tool",
}
"""Roles of the libraries by lower-case name, with ours; any other role stays as it is."""


class ChatTranscript(NamedTuple):
    """Parsed messages. `incomplete` is `truncated` if the value was cut; `is_structured` is False for plain text."""

    messages: tuple[ChatMessage, ...]
    incomplete: Incomplete | None = None
    is_structured: bool = True


NO_MESSAGES = ChatTranscript(())


def parse_messages(value: Json, role: str = "user") -> ChatTranscript:
    """Parse the messages of a value; a text or message without a role gets `role`.

    A text that is JSON of no known shape is an author's words and stays a text. If a document was cut, everything after
    its last complete message is left out.
    """
    if value is None or value == "":
        return NO_MESSAGES
    messages: list[ChatMessage] = []
    if not isinstance(value, str):
        return ChatTranscript(tuple(messages)) if _add_messages(value, role, messages, MAX_DEPTH) else NO_MESSAGES
    plain = read_plain_messages(value) if value[0] == "[" else None
    if plain:
        return ChatTranscript(plain)
    document = parse_document(value)
    if document is not None:
        known = _add_messages(document.value, role, messages, MAX_DEPTH)
        if not document.whole:
            return ChatTranscript(tuple(messages), "truncated")
        if known:
            return ChatTranscript(tuple(messages))
    return ChatTranscript((ChatMessage(role, value),), None, is_structured=False)


def parse_system_text(value: Json) -> str | None:
    """Parse the text of a system instruction: a list of parts, JSON of that, or plain text; None if there is none."""
    if value is None or value == "":
        return None
    return "\n".join([message.text for message in parse_messages(value, "system").messages if message.text]) or None


def split_system_prompt(messages: Iterable[ChatMessage]) -> tuple[str | None, tuple[ChatMessage, ...]]:
    """Split the system prompt from the other messages; several system messages are joined by a line break."""
    system: list[str] = []
    rest: list[ChatMessage] = []
    for message in messages:
        if message.role != "system":
            rest.append(message)
        elif message.text and message.text not in system:
            system.append(message.text)
    return "\n".join(system) or None, tuple(rest)


class SplitInput(TypedDict):
    """The fields of a `Call` that its input fills."""

    system: str | None
    input: tuple[ChatMessage, ...] | None


def split_input(messages: Iterable[ChatMessage]) -> SplitInput:
    """The fields of a `Call` for its input: the system prompt and the other messages."""
    system, rest = split_system_prompt(messages)
    return {"system": system, "input": as_messages(rest)}


def parse_tool_calls(value: Json) -> tuple[ToolCall, ...]:
    """Parse a list of tool calls in any shape, or its JSON or Python repr."""
    return find_tool_calls({"tool_calls": value})


def _add_messages(value: Json, role: str, messages: list[ChatMessage], depth: int) -> bool:
    """Add the messages in `value`; False if it has no shape of messages."""
    if depth <= 0:
        return False
    if isinstance(value, dict):
        item = as_dict(value)
        return any(key in item and reader(item, role, messages, depth - 1) for key, reader in _SHAPES.items())
    if isinstance(value, list):
        return _add_list(as_list(value), role, messages, depth - 1)
    if isinstance(value, str):
        if value.startswith("ChatMessage("):  # LlamaIndex writes its messages as reprs
            return _add_messages(parse_repr(value), role, messages, depth - 1)
        messages.append(parse_printed(value, role) or ChatMessage(role, value))
        return True
    return False


_PRINTED_MARKS = (" additional_kwargs={", " tool_call_id='", " response_metadata={")


def parse_printed(text: str, role: str) -> ChatMessage | None:
    """Parse a LangChain message as `print` shows it, `content='…' additional_kwargs={} …`; None if the text is not one.

    It has no role: fields that only a model's or a tool's message has decide, otherwise it gets `role`.
    """
    if not (text.startswith("content=") and any(mark in text for mark in _PRINTED_MARKS)):
        return None
    fields = parse_printed_fields(text)
    content = fields.get("content")
    if content is None:
        return None
    if fields.get("tool_call_id"):
        return make_tool_result({key: fields.get(key) for key in ("name", "tool_call_id")}, content)
    calls = parse_tool_calls(fields.get("tool_calls"))
    is_answer = bool(calls or fields.get("usage_metadata") or fields.get("response_metadata"))
    texts = parse_parts(content).texts
    return ChatMessage("assistant" if is_answer else role, ("" if is_answer else "\n").join(texts), calls)


def _add_list(items: list[Any], role: str, messages: list[ChatMessage], depth: int) -> bool:
    loose: list[Any] = []
    known = not items
    for item in items:
        plain = (_parse_plain(item) or _parse_pair(item)) if not loose else None
        if plain is not None:
            messages.append(plain)
            known = True
        elif _is_part(as_dict(item)):
            loose.append(item)
            known = True
        else:
            _add_loose_parts(loose, role, messages)
            known = _add_messages(item, role, messages, depth) or known
    _add_loose_parts(loose, role, messages)
    return known


_PLAIN_KEYS = frozenset({"role", "parts", "content", "name", "finish_reason"})
_PLAIN_ROLES: Mapping[str, str] = {"user": "user", "assistant": "assistant", "system": "system"}


def _parse_plain(item: Any) -> ChatMessage | None:
    """Parse a message of nothing but one text, as nearly all are, without trying any other shape."""
    if not isinstance(item, dict):
        return None
    message: JsonObject = item  # pyright: ignore[reportUnknownVariableType] - JSON
    raw = message.get("role")
    role = _PLAIN_ROLES.get(raw) if isinstance(raw, str) else None
    if role is None or not message.keys() <= _PLAIN_KEYS:
        return None
    text = message.get("content")
    if "parts" in message:
        text = _find_only_text(message["parts"]) if text is None else None
    if not isinstance(text, str):
        return None
    finish = message.get("finish_reason")
    return ChatMessage(role, text, (), None, None, None, parse_finish_reason(finish) if finish else None)


def _parse_pair(item: Any) -> ChatMessage | None:
    """Parse LangChain's shortest message: a role and a text."""
    match item:
        case [str(own_role), str(text)] if own_role.lower() in ROLES:
            return ChatMessage(ROLES[own_role.lower()], text)
        case _:
            return None


def _find_only_text(parts: Any) -> Any:
    part: Any = parts[0] if isinstance(parts, list) and len(parts) == 1 else None  # type: ignore[reportUnknownArgumentType]
    return part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None  # type: ignore[reportUnknownVariableType]


def _add_loose_parts(loose: list[Any], role: str, messages: list[ChatMessage]) -> None:
    """Add parts without a message around them as one message; thoughts alone are none."""
    if loose and not all(find_text(as_dict(part), "type") in HIDDEN_TYPES for part in loose):
        _add_parts(parse_parts(loose), role, messages)
    loose.clear()


_RESPONSE_KEYS = frozenset({"output", "choices", "candidates", "generations", "messages", "message"})
"""Keys of whole responses, which may have a `text` or a `tool_call` too."""


def _is_part(item: JsonObject) -> bool:
    if not item or "role" in item or "_role" in item or "lc" in item or "data" in item:
        return False
    kind = item.get("type")
    if isinstance(kind, str):
        return kind in PART_TYPES or not ("content" in item or kind.lower() in ROLES or kind == "message")
    return not PART_KEYS.isdisjoint(item) and _RESPONSE_KEYS.isdisjoint(item)


def _add_message(item: JsonObject, role: str, messages: list[ChatMessage], _depth: int = 0) -> bool:
    raw = item.get("role") or item.get("_role") or item.get("type")
    raw = as_dict(raw).get("label", raw)  # Semantic Kernel for .NET
    own_role = ROLES.get(raw.lower(), raw) if isinstance(raw, str) and raw else role
    if own_role == "unknown" and role == "assistant":  # OpenLLMetry does not know LangChain's streamed messages
        own_role = role
    elif own_role not in _KNOWN and isinstance(raw, str):
        own_role = _find_speaker(raw) or own_role
    data = as_dict(item.get("data"))
    body = data if "content" in data else item  # LangChain's {"type": "human", "data": {…}}
    content = next((body[key] for key in _CONTENT_KEYS if body.get(key) is not None), None)
    if content is None:
        content = body.get("refusal") or as_dict(body.get("audio")).get("transcript")
    if content is None and own_role not in _KNOWN and not find_tool_calls(body):
        return False  # other JSON that happens to have a key `role`
    if own_role == "tool" and as_dict(content).get("type") == "function":
        return True  # Langfuse ends a LangChain prompt with the definitions of the tools
    if own_role not in _KNOWN and any(
        call.name == own_role for message in messages[-_MAX_CALL_DISTANCE:] for call in message.tool_calls
    ):
        # Langfuse for JavaScript: the role is the tool's name.
        messages.append(make_tool_result({"name": own_role}, content))
    elif own_role == "tool" and not any(parse_tool_result(as_dict(part)) for part in as_list(content)):
        messages.append(make_tool_result({**as_dict(body.get("additional_kwargs")), **body}, content))
    else:
        parts = parse_parts(content)
        parts.attachments.extend(find_beside(body))
        _add_parts(parts, own_role, messages, find_tool_calls(body), _find_finish_reason(body))
    return True


_SPEAKERS = {
    **dict.fromkeys(("user", "human", "customer", "client", "caller", "visitor", "guest"), "user"),
    **dict.fromkeys(("assistant", "agent", "bot", "ai", "llm", "model"), "assistant"),
}
_WORDS = re.compile(r"[a-z]+")
_LONGEST_ROLE = 40


def _find_speaker(role: str) -> str | None:
    """Find who speaks in a role that no library is known to write, by a word in its name: `end_user`, `ai-agent`."""
    words = _WORDS.findall(role.lower()) if len(role) <= _LONGEST_ROLE else []
    return next((_SPEAKERS[word] for word in words if word in _SPEAKERS), None)


_MAX_CALL_DISTANCE = 32
"""Messages before a tool result that are searched for its call."""
_KNOWN = frozenset(ROLES.values())
_CONTENT_KEYS = ("parts", "content", "blocks", "_content", "text", "contents", "items")


def _find_finish_reason(body: JsonObject) -> str | None:
    for key in ("finish_reason", "stop_reason", "finishReason", "stopReason"):
        if body.get(key):
            return parse_finish_reason(body[key])
    for key in ("meta", "_meta", "response_metadata", "generation_info"):
        if about := as_dict(body.get(key)):
            return parse_finish_reason(about.get("finish_reason") or about.get("stop_reason"))
    return None


_OTHER_AGENTS = "For context:"
"""The beginning of a message of role user with which Google's ADK reports other agents' work: `[agent] said: …`."""


def _add_parts(
    parts: MessageParts,
    role: str,
    messages: list[ChatMessage],
    separate_calls: tuple[ToolCall, ...] = (),
    finish: str | None = None,
) -> None:
    """Add the message of these parts, and the tool results among them, before or after it."""
    calls = tuple(parts.tool_calls) or separate_calls
    if calls and role in {"user", "system"}:
        role = "assistant"
    elif role == "user" and len(parts.texts) > 1 and _tells_of_other_agents(parts.texts):
        role = "context"
    text = ("" if role == "assistant" else "\n").join(parts.texts)  # models' texts are fragments, people's paragraphs
    if not (text or calls or parts.tool_results):
        text = " ".join(parts.media)
    if role != "assistant":
        messages.extend(parts.tool_results)
    if text or calls or parts.attachments or not parts.tool_results:
        messages.append(ChatMessage(role, text, calls, None, None, None, finish, tuple(parts.attachments)))
    if role == "assistant":
        messages.extend(parts.tool_results)


def _tells_of_other_agents(texts: list[str]) -> bool:
    return texts[0] == _OTHER_AGENTS or (texts[0].startswith(_OTHER_AGENTS) and texts[1].startswith("["))


ShapeReader = Callable[[JsonObject, str, list[ChatMessage], int], bool]
"""Adds the messages of an object, given the role of messages without one; False if it is not of the reader's shape."""


def _add_system_prompt(item: JsonObject, messages: list[ChatMessage]) -> None:
    for holder in (item, as_dict(item.get("config"))):
        for key in ("system", "system_instruction", "systemInstruction", "system_instructions", "instructions"):
            if text := parse_system_text(holder.get(key)):
                messages.append(ChatMessage("system", text))
                return


def _make_reader(key: str, role: str | None = None, *, system: bool = False) -> ShapeReader:
    """Return a reader for documents with their messages under `key`."""

    def read(item: JsonObject, default: str, messages: list[ChatMessage], depth: int) -> bool:
        before = len(messages)
        if system:
            _add_system_prompt(item, messages)
        if _add_messages(item[key], role or default, messages, depth):
            return True
        del messages[before:]
        return False

    return read


def _add_choices(item: JsonObject, _role: str, messages: list[ChatMessage], depth: int) -> bool:
    """OpenAI's response, Gemini's candidates and LangChain's generations: one message per choice."""
    choices = as_list(item.get("choices") or item.get("candidates") or item.get("generations"))
    for choice in choices:
        each: Any = choice
        while as_list(each):
            each = as_list(each)[0]
        _add_choice(as_dict(each), messages, depth)
    return bool(choices)


def parse_choice(choice: JsonObject) -> ChatMessage | None:
    """Parse the message of one choice, with its finish reason and the tool calls beside the message."""
    messages: list[ChatMessage] = []
    _add_choice(choice, messages, MAX_DEPTH)
    return messages[-1] if messages else None


def _add_choice(choice: JsonObject, messages: list[ChatMessage], depth: int) -> None:
    before = len(messages)
    for key in ("message", "delta", "content", "text"):
        value = choice.get(key)
        if value is not None and _add_messages(value, "assistant", messages, depth):
            break
    if len(messages) > before:
        last = messages[-1]
        messages[-1] = last._replace(
            finish_reason=last.finish_reason or _find_finish_reason(choice),
            tool_calls=last.tool_calls or find_tool_calls(choice),
        )


def _add_langchain_object(item: JsonObject, role: str, messages: list[ChatMessage], _depth: int) -> bool:
    path = as_list(item.get("id"))
    own_role = ROLES.get(str(path[-1]).lower(), role) if path else role
    return isinstance(item.get("kwargs"), dict) and _add_message(
        {**as_dict(item["kwargs"]), "role": own_role}, own_role, messages
    )


def _add_typed(item: JsonObject, role: str, messages: list[ChatMessage], depth: int) -> bool:
    """Anything with a `type`: LangChain's messages, and the items of the Responses API."""
    kind = item["type"]
    if not isinstance(kind, str):
        return False
    if kind in HIDDEN_TYPES:
        return True
    if kind.lower() in ROLES and (not _TYPED.isdisjoint(item) or isinstance(item.get("data"), dict)):
        return _add_message(item, role, messages)
    if kind in _AUTOGEN_MESSAGES:
        return _add_message({**item, "role": "user" if item.get("source") == "user" else "assistant"}, role, messages)
    if kind in PART_TYPES:
        _add_parts(parse_parts([item]), role, messages)
        return True
    return kind == "message" and "content" in item and _add_message({**item, "type": None}, role, messages, depth)


_TYPED = frozenset({"content", "contents", "text", "toolExecutionRequests"})
"""Keys of a message whose role is its type; all but the first are LangChain4j's."""
_AUTOGEN_MESSAGES = frozenset(
    {"TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage"}
)
"""AutoGen's messages between agents; their `source` is the speaker."""


def _add_cohere(item: JsonObject, _role: str, messages: list[ChatMessage], _depth: int) -> bool:
    """Cohere's request: the history beside the newest message."""
    history, newest = as_list(item["chat_history"]), item.get("message")
    if "text" in item or not isinstance(newest, str):
        return False
    if isinstance(item.get("preamble"), str):
        messages.append(ChatMessage("system", item["preamble"]))
    for each in map(as_dict, history):
        own_role = each.get("role")
        if isinstance(own_role, str):
            _add_message({**each, "content": each.get("message"), "message": None}, own_role, messages)
    messages.append(ChatMessage("user", newest))
    return True


def _add_pydantic_ai(item: JsonObject, _role: str, messages: list[ChatMessage], _depth: int) -> bool:
    """Pydantic AI's own messages: a request or a response, each part with a kind of its own."""
    parts = [as_dict(part) for part in as_list(item.get("parts"))]
    if item["kind"] not in ("request", "response") or not all("part_kind" in part for part in parts):  # any JSON
        return False
    answer_parts: list[JsonObject] = []
    for part in parts:
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name")}
        match part["part_kind"]:
            case "system-prompt" | "user-prompt" as kind:
                _add_parts(parse_parts(part.get("content")), kind.removesuffix("-prompt"), messages)
            case "tool-return" | "retry-prompt" if call["id"]:
                messages.append(make_tool_result(call, part.get("content")))
            case "tool-call" | "builtin-tool-call":
                answer_parts.append({"type": "tool_call", **call, "arguments": part.get("args")})
            case "text":
                answer_parts.append({"type": "text", "text": part.get("content")})
            case _:
                pass
    if answer_parts or item["kind"] == "response":
        _add_parts(parse_parts(answer_parts), "assistant", messages, (), _find_finish_reason(item))
    return True


def _add_output(item: JsonObject, _role: str, messages: list[ChatMessage], depth: int) -> bool:
    """Bedrock Converse's and the Responses API's `output`."""
    value = as_dict(item["output"]).get("message") or as_list(item["output"])
    if not value or not _add_messages(value, "assistant", messages, depth):
        return False
    reason = parse_finish_reason(item.get("stopReason"))
    if messages and reason:
        messages[-1] = messages[-1]._replace(finish_reason=reason)
    return True


def _add_responses_request(item: JsonObject, _role: str, messages: list[ChatMessage], depth: int) -> bool:
    if item.keys().isdisjoint({"model", "instructions", "previous_response_id", "conversation"}):
        return False
    return _make_reader("input", "user", system=True)(item, "user", messages, depth)


def _add_without_role(item: JsonObject, role: str, messages: list[ChatMessage], depth: int) -> bool:
    """A message without a role: an answer's `{content}`, or Gemini's answer with its content inside."""
    if isinstance(item["content"], dict):
        return _add_messages(item["content"], role, messages, depth)
    return _add_message({**item, "type": None, "role": role}, role, messages)


def _add_gemini_parts(item: JsonObject, role: str, messages: list[ChatMessage], depth: int) -> bool:
    """Gemini's message without a role."""
    return isinstance(item["parts"], list) and _add_message(item, role, messages, depth)


def _add_nested_message(item: JsonObject, role: str, messages: list[ChatMessage], depth: int) -> bool:
    """An answer of Ollama or LlamaIndex: the message is an object inside."""
    if not isinstance(item["message"], dict):
        return _add_messages(item["message"], role, messages, depth)
    before = len(messages)
    _add_choice(item, messages, depth)
    return len(messages) > before


def _add_text(item: JsonObject, role: str, messages: list[ChatMessage], _depth: int) -> bool:
    return isinstance(item["text"], str) and _add_message({"role": role, "content": item["text"]}, role, messages)


def _add_tool_calls(item: JsonObject, _role: str, messages: list[ChatMessage], _depth: int) -> bool:
    return _add_message({**item, "role": "assistant"}, "assistant", messages)


_SHAPES: dict[str, ShapeReader] = {
    "role": _add_message, "_role": _add_message, "lc": _add_langchain_object, "kind": _add_pydantic_ai,
    "type": _add_typed, "choices": _add_choices, "candidates": _add_choices, "generations": _add_choices,
    "messages": _make_reader("messages", system=True), "contents": _make_reader("contents", "user", system=True),
    "output": _add_output, "replies": _make_reader("replies", "assistant"), "chat_history": _add_cohere,
    "message": _add_nested_message, "update": _make_reader("update"), "input": _add_responses_request,
    "prompt": _make_reader("prompt", "user", system=True), "prompts": _make_reader("prompts", "user"),
    "parts": _add_gemini_parts, "content": _add_without_role, "items": _make_reader("items"),
    "tool_calls": _add_tool_calls, "text": _add_text,
}  # fmt: skip
"""Readers by the key that identifies their shape, in the order in which they are tried."""
