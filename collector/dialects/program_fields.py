"""The fields of structured programs (DSPy), out of the prompts that their adapters write around them.

An adapter turns the inputs of a program into one user message, each value below a marker with its field's name, and
asks for the outputs in the same form, as JSON, or in tags. A program wrote these messages, and no person reads them:
the question is the value of an input field, and the answer that of an output field.
"""

from collections.abc import Mapping, Sequence

from collector.dialects.call import Call, ChatMessage, Passage
from collector.dialects.decode import as_dict, as_list, decode, is_object_repr
from collector.dialects.free_form import ANSWER_KEYS, QUESTION_KEYS
from collector.dialects.parts import parse_arguments
from evaluators.cases import Json, ToolCall
from evaluators.texts.exact_json import encode_compact

_INPUT_HEADING = "Your input fields are:\n"
_MARKER, _MARKER_END = "[[ ## ", " ## ]]"
_REQUEST = "\n\nRespond with "
"""The begin of the sentence, after the last input, that asks for the form of the outputs."""
_THOUGHTS = frozenset({"reasoning", "rationale", "next_thought"})
_STATE = frozenset({"history", "trajectory"})
_CONTEXTS = frozenset({"context", "documents", "passages", "sources"})
_TOOL_NAME, _TOOL_ARGUMENTS = "next_tool_name", "next_tool_args"
_LAST_STEP = "finish"
"""The tool that an agent calls when it has all it needs."""
_MAX_FIELDS = 200
_PARTS = ('[{"type":"', '[{"type": "')


def unwrap_program(call: Call) -> Call:
    """Replace the messages of a program's model call by the values of its fields; other calls stay as they are."""
    messages = call.input
    if call.kind != "model" or not messages:
        return call
    first = messages[0]
    names = _parse_field_names(first.text) if first.role == "system" and first.text.startswith(_INPUT_HEADING) else None
    if names is None:
        if _MARKER not in messages[-1].text or not is_marked(messages[-1].text):
            return call
        names = ((), ())
    inputs, outputs = names
    question = next((message.text for message in reversed(messages) if message.role == "user"), "")
    fields = _find_sections(question, inputs)
    contexts = [text for name, value in fields.items() if name in _CONTEXTS for text in _split_list(value)]
    return call._replace(
        input=tuple(_unwrap_input(message, inputs, outputs) for message in messages),
        output=None if call.output is None else tuple(_unwrap_output(message, outputs) for message in call.output),
        finish_reason="tool" if _is_last_step(call.output, outputs) else call.finish_reason,
        passages=tuple(map(Passage, contexts)) or call.passages,
    )


def is_scaffolding(text: str | None) -> bool:
    """Whether a text is a library's notation around words: markers, an object's repr, a list of parts as JSON."""
    if not text:
        return False
    if text[0] in "[<" and (is_object_repr(text) or is_list_of_parts(text)):
        return True
    return _MARKER in text and is_marked(text)


def is_list_of_parts(text: str) -> bool:
    """Whether a text is a message's content as an unparsed list of parts."""
    return text.startswith(_PARTS) and all("type" in as_dict(each) for each in as_list(decode(text)) or [None])


def is_marked(text: str) -> bool:
    """Whether a text still has the markers of an adapter, `[[ ## name ## ]]`, at the beginning of a line."""
    start = text.find(_MARKER)
    return start >= 0 and (start == 0 or text[start - 1] == "\n") and _MARKER_END in text[start : start + 200]


def _parse_field_names(system: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Parse the names of input and output fields, which begin an adapter's system prompt; None if it is another one."""
    inputs, heading, rest = system.partition("\nYour output fields are:\n")
    return (_parse_names(inputs.removeprefix(_INPUT_HEADING)), _parse_names(rest)) if heading else None


def _parse_names(listing: str) -> tuple[str, ...]:
    """Parse the names in lines like "1. `question` (str): ..."; a line "All interactions…" ends the list."""
    names: list[str] = []
    for line in listing.split("\n")[:_MAX_FIELDS]:
        number, _, rest = line.partition(". `")
        name, closed, _ = rest.partition("`")
        if number.isdecimal() and closed and name.isidentifier():
            names.append(name)
        elif line.startswith("All interactions"):
            break
    return tuple(names)


def _unwrap_input(message: ChatMessage, inputs: Sequence[str], outputs: Sequence[str]) -> ChatMessage:
    if message.role == "assistant":
        return _unwrap_output(message, outputs)
    if message.role != "user":
        return message
    question = _choose_question(_find_sections(message.text, inputs))
    return message if question is None else message._replace(text=question)


def _choose_question(fields: Mapping[str, str]) -> str | None:
    for name in QUESTION_KEYS:
        if fields.get(name):
            return fields[name]
    own = {name: value for name, value in fields.items() if name not in _STATE and value}
    if len(own) > 1:
        own = {name: value for name, value in own.items() if name not in _CONTEXTS} or own
    if len(own) == 1:
        return next(iter(own.values()))
    return "\n".join(f"{name}: {value}" for name, value in own.items()) or None


def _unwrap_output(message: ChatMessage, outputs: Sequence[str]) -> ChatMessage:
    fields = _find_outputs(message.text, outputs)
    if not fields:
        return message
    tool = fields.get(_TOOL_NAME)
    if isinstance(tool, str) and tool:
        calls = (
            () if tool == _LAST_STEP else (ToolCall(name=tool, arguments=parse_arguments(fields.get(_TOOL_ARGUMENTS))),)
        )
        return message._replace(text="", tool_calls=(*message.tool_calls, *calls))
    return message._replace(text=_choose_answer(fields))


def _choose_answer(fields: Mapping[str, Json]) -> str:
    results = {name: value for name, value in fields.items() if name not in _THOUGHTS} or fields
    chosen = next((results[name] for name in ANSWER_KEYS if name in results), None)
    if chosen is None:
        chosen = next(iter(results.values())) if len(results) == 1 else dict(results)
    return chosen if isinstance(chosen, str) else encode_compact(chosen)


def _is_last_step(output: Sequence[ChatMessage] | None, outputs: Sequence[str]) -> bool:
    written: Mapping[str, Json] = _find_outputs(output[0].text, outputs) if output and _TOOL_NAME in outputs else {}
    return written.get(_TOOL_NAME) == _LAST_STEP


def _find_outputs(text: str, names: Sequence[str]) -> Mapping[str, Json]:
    """Find the output fields of a message, in markers, as JSON, or in tags; nothing if it has another form."""
    if is_marked(text):
        return _parse_marked(text)
    if text.lstrip().startswith("{"):
        document = as_dict(decode(text))
        return document if document and set(names) & document.keys() else {}
    return _parse_tagged(text, names)


def _find_sections(text: str, names: Sequence[str]) -> Mapping[str, str]:
    """Find the input fields of a message, without the request for the outputs' form that follows them."""
    body = text.rpartition(_REQUEST)[0] or text
    return _parse_marked(body) if is_marked(body) else _parse_tagged(body, names)


def _parse_marked(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in ("\n" + text).split("\n" + _MARKER)[1 : _MAX_FIELDS + 1]:
        name, closed, value = part.partition(_MARKER_END)
        if closed and name.isidentifier() and name not in fields and name != "completed":
            fields[name] = value.strip()
    return fields


def _parse_tagged(text: str, names: Sequence[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name in names:
        _, opened, rest = text.partition(f"<{name}>")
        value, closed, _ = rest.rpartition(f"</{name}>") if opened else ("", "", "")
        if closed:
            fields[name] = value.strip()
    return fields


def _split_list(value: str) -> list[str]:
    """Split a list as adapters write it, lines like `[1] «first»`, or `«only»`, or JSON; any other text is one item."""
    items = as_list(decode(value))
    if items and all(isinstance(item, str) for item in items):
        return items
    lines = value.split("\n")
    parts: list[str] = []
    for line in lines:
        number, quoted, rest = line.partition("«")
        if quoted and number.strip() in {"", f"[{len(parts) + 1}]"}:
            parts.append(rest)
        elif parts:
            parts[-1] += "\n" + line
        else:
            return [value] if value else []
    return [part.removesuffix("»") for part in parts]
