"""One parser for every shape of chat messages.

Parts of the OpenTelemetry conventions, OpenAI chat and Responses, Anthropic blocks, Gemini contents, Bedrock Converse,
the AI SDK, LangChain's serialised objects, Haystack, LlamaIndex, Ollama; as values, as JSON, as JSON cut in the middle,
as Python reprs, or as plain text. Nobody says which of them an attribute holds, so the shape itself decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from collector.dialects.call import Said, finish_of
from collector.dialects.decode import as_dict, as_list, document, python_value, shown_fields
from collector.dialects.parts import (
    PART_KEYS,
    PART_TYPES,
    SILENT,
    Dict,
    Parts,
    answer,
    answer_part,
    calls_beside,
    name_in,
    parts_of,
)
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
}
"""What the roles of the dialects are in ours; any other role stays as it is."""


class Heard(NamedTuple):
    """Messages, and why they are not all that was said (`truncated`), if so. `shaped` is False for plain text."""

    said: tuple[Said, ...]
    hole: Incomplete | None = None
    shaped: bool = True


NONE = Heard(())


def messages(value: Json, role: str = "user") -> Heard:
    """Read the messages of a value; a text or message without a role is taken as one of `role`.

    A text that is JSON, but not of any known shape, is what somebody said and stays a text. Of a document that was cut,
    what comes after the last complete message is left out.
    """
    if value is None or value == "":
        return NONE
    said: list[Said] = []
    if not isinstance(value, str):
        return Heard(tuple(said)) if _walk(value, role, said, MAX_DEPTH) else NONE
    found = document(value)
    if found is not None:
        known = _walk(found.value, role, said, MAX_DEPTH)
        if not found.whole:
            return Heard(tuple(said), "truncated")
        if known:
            return Heard(tuple(said))
    return Heard((Said(role, value),), None, shaped=False)


def parts_text(value: Json) -> str | None:
    """The text of a system instruction: a list of parts, JSON of that, or plain text; None if there is none."""
    return "\n".join(each.text for each in messages(value, "system").said if each.text) or None


def system_and_rest(said: Iterable[Said]) -> tuple[str | None, tuple[Said, ...]]:
    """Part the system prompt from the other messages; several system messages are joined by a line break."""
    system: list[str] = []
    rest: list[Said] = []
    for each in said:
        if each.role != "system":
            rest.append(each)
        elif each.text and each.text not in system:
            system.append(each.text)
    return "\n".join(system) or None, tuple(rest)


def tool_calls(value: Json) -> tuple[ToolCall, ...]:
    """Read a list of tool calls in any shape, or JSON or a Python repr of one."""
    return calls_beside({"tool_calls": value})


def _walk(value: Json, role: str, said: list[Said], depth: int) -> bool:
    """Add the messages in `value`; False if it has no shape of messages."""
    if depth <= 0:
        return False
    if isinstance(value, dict):
        item = as_dict(value)
        return any(key in item and reader(item, role, said, depth - 1) for key, reader in _SHAPES.items())
    if isinstance(value, list):
        return _list(as_list(value), role, said, depth - 1)
    if isinstance(value, str):
        if value.startswith("ChatMessage("):  # LlamaIndex writes its messages as reprs
            return _walk(python_value(value), role, said, depth - 1)
        said.append(printed(value, role) or Said(role, value))
        return True
    return False


_PRINTED = (" additional_kwargs={", " tool_call_id='", " response_metadata={")


def printed(text: str, role: str) -> Said | None:
    """A LangChain message as `print` shows it, `content='…' additional_kwargs={} …`; None if the text is none.

    It does not say whose it is: what only models' messages have, or tools', does; otherwise it is one of `role`.
    """
    if not (text.startswith("content=") and any(mark in text for mark in _PRINTED)):
        return None
    fields = shown_fields(text)
    content = fields.get("content")
    if content is None:
        return None
    if fields.get("tool_call_id"):
        return answer({key: fields.get(key) for key in ("name", "tool_call_id")}, content)
    calls = tool_calls(fields.get("tool_calls"))
    answered = bool(calls or fields.get("usage_metadata") or fields.get("response_metadata"))
    words = parts_of(content).texts
    return Said("assistant" if answered else role, ("" if answered else "\n").join(words), calls)


def _list(items: list[Any], role: str, said: list[Said], depth: int) -> bool:
    loose: list[Any] = []
    known = not items
    for item in items:
        plain = (_plain(item) or _pair(item)) if not loose else None
        if plain is not None:
            said.append(plain)
            known = True
        elif _is_part(as_dict(item)):
            loose.append(item)
            known = True
        else:
            _flush(loose, role, said)
            known = _walk(item, role, said, depth) or known
    _flush(loose, role, said)
    return known


_PLAIN_KEYS = frozenset({"role", "parts", "content", "name", "finish_reason"})
_PLAIN_ROLES: Mapping[str, str] = {"user": "user", "assistant": "assistant", "system": "system"}


def _plain(item: Any) -> Said | None:
    """A message that is nothing but one text, as nearly all are: read without looking for anything else."""
    if not isinstance(item, dict):
        return None
    held: Dict = item  # type: ignore[reportUnknownVariableType] - JSON
    raw = held.get("role")
    role = _PLAIN_ROLES.get(raw) if isinstance(raw, str) else None
    if role is None or not held.keys() <= _PLAIN_KEYS:
        return None
    text = held.get("content")
    if "parts" in held:
        text = _only_part(held["parts"]) if text is None else None
    if not isinstance(text, str):
        return None
    finish = held.get("finish_reason")
    return Said(role, text, (), None, None, None, finish_of(finish) if finish else None)


def _pair(item: Any) -> Said | None:
    """LangChain's shortest message: a role and a text."""
    match item:
        case [str(who), str(text)] if who.lower() in ROLES:
            return Said(ROLES[who.lower()], text)
        case _:
            return None


def _only_part(parts: Any) -> Any:
    part: Any = parts[0] if isinstance(parts, list) and len(parts) == 1 else None  # type: ignore[reportUnknownArgumentType]
    return part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None  # type: ignore[reportUnknownVariableType]


def _flush(loose: list[Any], role: str, said: list[Said]) -> None:
    """Parts without a message around them make one message; thoughts alone make none."""
    if loose and not all(name_in(as_dict(part), "type") in SILENT for part in loose):
        _emit(parts_of(loose), role, said)
    loose.clear()


_WHOLE = frozenset({"output", "choices", "candidates", "generations", "messages", "message"})
"""Keys of whole responses, which may have a `text` or a `tool_call` of their own."""


def _is_part(item: Dict) -> bool:
    if not item or "role" in item or "_role" in item or "lc" in item or "data" in item:
        return False
    kind = item.get("type")
    if isinstance(kind, str):
        return kind in PART_TYPES or not ("content" in item or kind in ROLES or kind == "message")
    return not PART_KEYS.isdisjoint(item) and _WHOLE.isdisjoint(item)


def _message(item: Dict, role: str, said: list[Said], _depth: int = 0) -> bool:
    raw = item.get("role") or item.get("_role") or item.get("type")
    raw = as_dict(raw).get("label", raw)  # Semantic Kernel for .NET
    who = ROLES.get(raw.lower(), raw) if isinstance(raw, str) and raw else role
    if who == "unknown" and role == "assistant":  # OpenLLMetry does not know LangChain's streamed messages
        who = role
    data = as_dict(item.get("data"))
    body = data if "content" in data else item  # LangChain's {"type": "human", "data": {…}}
    content = next((body[key] for key in _CONTENT_KEYS if body.get(key) is not None), None)
    if content is None:
        content = body.get("refusal") or as_dict(body.get("audio")).get("transcript")
    if content is None and who not in _KNOWN and not calls_beside(body):
        return False  # somebody's JSON that has a role of its own
    if who == "tool" and as_dict(content).get("type") == "function":
        return True  # Langfuse ends a LangChain prompt with the definitions of the tools
    if who not in _KNOWN and any(call.name == who for each in said[-_NEAR:] for call in each.calls):
        said.append(answer({"name": who}, content))  # Langfuse for JavaScript: the role is the tool's name
    elif who == "tool" and not any(answer_part(as_dict(part)) for part in as_list(content)):
        said.append(answer({**as_dict(body.get("additional_kwargs")), **body}, content))
    else:
        _emit(parts_of(content), who, said, calls_beside(body), _finish(body))
    return True


_NEAR = 32
"""Messages before a tool's answer among which its call is looked for."""
_KNOWN = frozenset(ROLES.values())
_CONTENT_KEYS = ("parts", "content", "blocks", "_content", "text", "contents", "items")


def _finish(body: Dict) -> str | None:
    for key in ("finish_reason", "stop_reason", "finishReason", "stopReason"):
        if body.get(key):
            return finish_of(body[key])
    for key in ("meta", "_meta", "response_metadata", "generation_info"):
        about = as_dict(body.get(key))
        if about:
            return finish_of(about.get("finish_reason") or about.get("stop_reason"))
    return None


_ELSEWHERE = "For context:"
"""How Google's ADK begins a message of role user that tells an agent what other agents did: `[agent] said: …`."""


def _emit(
    parts: Parts, role: str, said: list[Said], beside: tuple[ToolCall, ...] = (), finish: str | None = None
) -> None:
    """Add the message that parts make, and before or after it the tools' answers among them."""
    calls = tuple(parts.calls) or beside
    if calls and role in {"user", "system"}:
        role = "assistant"
    elif role == "user" and len(parts.texts) > 1 and _is_about_others(parts.texts):
        role = "context"
    glue = "" if role == "assistant" else "\n"  # models' texts come in fragments, people's in paragraphs
    text = glue.join(parts.texts)
    if not (text or calls or parts.answers):
        text = " ".join(parts.media)
    if role != "assistant":
        said.extend(parts.answers)
    if text or calls or not parts.answers:
        said.append(Said(role, text, calls, None, None, None, finish))
    if role == "assistant":
        said.extend(parts.answers)


def _is_about_others(texts: list[str]) -> bool:
    first, then = texts[0], texts[1]
    return first == _ELSEWHERE or (first.startswith(_ELSEWHERE) and then.startswith("["))


Reader = Callable[[Dict, str, list[Said], int], bool]
"""Adds the messages of an object, given the role of those without one; False if it is not of the reader's shape."""


def _system_first(item: Dict, said: list[Said]) -> None:
    for holder in (item, as_dict(item.get("config"))):
        for key in ("system", "system_instruction", "systemInstruction", "system_instructions", "instructions"):
            text = parts_text(holder.get(key))
            if text:
                said.append(Said("system", text))
                return


def _under(key: str, role: str | None = None, *, system: bool = False) -> Reader:
    """A reader of a document that holds its messages under `key`."""

    def read(item: Dict, default: str, said: list[Said], depth: int) -> bool:
        before = len(said)
        if system:
            _system_first(item, said)
        if _walk(item[key], role or default, said, depth):
            return True
        del said[before:]
        return False

    return read


def _choices(item: Dict, _role: str, said: list[Said], depth: int) -> bool:
    """OpenAI's response, Gemini's candidates and LangChain's generations: one message per choice."""
    choices = as_list(item.get("choices") or item.get("candidates") or item.get("generations"))
    for choice in choices:
        each: Any = choice
        while as_list(each):
            each = as_list(each)[0]
        _choice(as_dict(each), said, depth)
    return bool(choices)


def choice_message(choice: Dict) -> Said | None:
    """The message of one choice, with its finish reason and with tool calls that stand beside the message."""
    said: list[Said] = []
    _choice(choice, said, MAX_DEPTH)
    return said[-1] if said else None


def _choice(choice: Dict, said: list[Said], depth: int) -> None:
    before = len(said)
    for key in ("message", "delta", "content", "text"):
        value = choice.get(key)
        if value is not None and _walk(value, "assistant", said, depth):
            break
    if len(said) > before:
        last = said[-1]
        said[-1] = last._replace(finish=last.finish or _finish(choice), calls=last.calls or calls_beside(choice))


def _langchain_object(item: Dict, role: str, said: list[Said], _depth: int) -> bool:
    path = as_list(item.get("id"))
    who = ROLES.get(str(path[-1]).lower(), role) if path else role
    return isinstance(item.get("kwargs"), dict) and _message({**as_dict(item["kwargs"]), "role": who}, who, said)


def _typed(item: Dict, role: str, said: list[Said], depth: int) -> bool:
    """Something with a `type`: LangChain's messages, and the items of the Responses API."""
    kind = item["type"]
    if not isinstance(kind, str):
        return False
    if kind in SILENT:
        return True
    if kind.lower() in ROLES and ("content" in item or isinstance(item.get("data"), dict)):
        return _message(item, role, said)
    if kind in _SPOKEN:
        return _message({**item, "role": "user" if item.get("source") == "user" else "assistant"}, role, said)
    if kind in PART_TYPES:
        _emit(parts_of([item]), role, said)
        return True
    return kind == "message" and "content" in item and _message({**item, "type": None}, role, said, depth)


_SPOKEN = frozenset({"TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage"})
"""AutoGen's messages between agents; their source says who speaks."""


def _cohere(item: Dict, _role: str, said: list[Said], _depth: int) -> bool:
    """Cohere's request: the history beside the newest message."""
    history, newest = as_list(item["chat_history"]), item.get("message")
    if "text" in item or not isinstance(newest, str):
        return False
    if isinstance(item.get("preamble"), str):
        said.append(Said("system", item["preamble"]))
    for each in map(as_dict, history):
        who = each.get("role")
        if isinstance(who, str):
            _message({**each, "content": each.get("message"), "message": None}, who, said)
    said.append(Said("user", newest))
    return True


def _pydantic(item: Dict, _role: str, said: list[Said], _depth: int) -> bool:
    """Pydantic AI's own messages: a request or a response, each part with a kind of its own."""
    parts = [as_dict(each) for each in as_list(item.get("parts"))]
    if item["kind"] not in ("request", "response") or not all("part_kind" in part for part in parts):  # any JSON
        return False
    spoken: list[Dict] = []
    for part in parts:
        about = {"id": part.get("tool_call_id"), "name": part.get("tool_name")}
        match part["part_kind"]:
            case "system-prompt" | "user-prompt" as kind:
                _emit(parts_of(part.get("content")), kind.removesuffix("-prompt"), said)
            case "tool-return" | "retry-prompt" if about["id"]:
                said.append(answer(about, part.get("content")))
            case "tool-call" | "builtin-tool-call":
                spoken.append({"type": "tool_call", **about, "arguments": part.get("args")})
            case "text":
                spoken.append({"type": "text", "text": part.get("content")})
            case _:
                pass
    if spoken or item["kind"] == "response":
        _emit(parts_of(spoken), "assistant", said, (), _finish(item))
    return True


def _output(item: Dict, _role: str, said: list[Said], depth: int) -> bool:
    """Bedrock Converse's and the Responses API's `output`."""
    value = as_dict(item["output"]).get("message") or as_list(item["output"])
    if not value or not _walk(value, "assistant", said, depth):
        return False
    reason = finish_of(item.get("stopReason"))
    if said and reason:
        said[-1] = said[-1]._replace(finish=reason)
    return True


def _responses_request(item: Dict, _role: str, said: list[Said], depth: int) -> bool:
    if item.keys().isdisjoint({"model", "instructions", "previous_response_id", "conversation"}):
        return False
    return _under("input", "user", system=True)(item, "user", said, depth)


def _roleless(item: Dict, role: str, said: list[Said], depth: int) -> bool:
    """A message that leaves out its role: an answer's `{content}`; Gemini's answer with its content inside."""
    if isinstance(item["content"], dict):
        return _walk(item["content"], role, said, depth)
    return _message({**item, "type": None, "role": role}, role, said)


def _nameless(item: Dict, role: str, said: list[Said], depth: int) -> bool:
    """Gemini's message without a role."""
    return isinstance(item["parts"], list) and _message(item, role, said, depth)


def _inner_message(item: Dict, role: str, said: list[Said], depth: int) -> bool:
    """An answer of Ollama or LlamaIndex: the message is an object inside."""
    return _walk(item["message"], "assistant" if isinstance(item["message"], dict) else role, said, depth)


def _only_text(item: Dict, role: str, said: list[Said], _depth: int) -> bool:
    return isinstance(item["text"], str) and _message({"role": role, "content": item["text"]}, role, said)


def _only_calls(item: Dict, _role: str, said: list[Said], _depth: int) -> bool:
    return _message({**item, "role": "assistant"}, "assistant", said)


_SHAPES: dict[str, Reader] = {
    "role": _message,
    "_role": _message,
    "lc": _langchain_object,
    "kind": _pydantic,
    "type": _typed,
    "choices": _choices,
    "candidates": _choices,
    "generations": _choices,
    "messages": _under("messages", system=True),
    "contents": _under("contents", "user", system=True),
    "output": _output,
    "replies": _under("replies", "assistant"),
    "chat_history": _cohere,
    "message": _inner_message,
    "update": _under("update"),
    "input": _responses_request,
    "prompt": _under("prompt", "user", system=True),
    "prompts": _under("prompts", "user"),
    "parts": _nameless,
    "content": _roleless,
    "items": _under("items"),
    "tool_calls": _only_calls,
    "text": _only_text,
}
"""By the key that gives a shape away, in the order in which they are tried."""
