"""Cases as other libraries write them, in our names: DeepEval, Ragas, promptfoo, OpenAI, LangChain, Anthropic, UiPath.

Each kind of object has one table: every name that stands for a field, and the names that say nothing that an evaluator
reads. Any other name is refused with a suggestion, so that no misspelt key loses its value in silence.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from collector.dialects.messages import parse_messages
from collector.dialects.parts import parse_arguments
from collector.errors import BadInput
from collector.wording import is_like, listed, suggestion
from evaluators.cases import Attachment, Conversation, Feedback, Message, TokenCount, ToolCall, ToolDefinition, Turn
from evaluators.texts.exact_json import parse_exactly

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class _ObjectNames:
    """Other libraries' names for one kind of object.

    `names` are other libraries' names in snake case and ours for them; `silent` are names that are left out; an object
    under a name of `wrappers` is read in place of what encloses it.
    """

    kind: str
    ours: frozenset[str]
    names: Mapping[str, str]
    silent: frozenset[str] = frozenset()
    wrappers: tuple[str, ...] = ()

    def read(self, value: object, path: str = "") -> dict[str, Any]:
        """The object in our names, without what is null.

        Raises:
            BadInput: it is no object, has an unknown name, or two names of one field.
        """
        if not isinstance(value, Mapping):
            raise BadInput(f"{path} must be an object")
        result: dict[str, Any] = {}
        for name, item in self._unwrapped(cast("Fields", value)).items():
            own = self.own_name(name)
            if own is None:
                raise BadInput(self._unknown_key(name, path))
            if not own or item is None:
                continue
            if result.get(own, item) != item:
                raise BadInput(f"{path}{'.' if path else ''}{name}: says {own} a second time; keep one of them")
            result[own] = item
        return result

    def own_name(self, name: str) -> str | None:
        """Our name for a field, "" for one that is left out; None if no library uses it."""
        snake = _CAMEL.sub("_", name.strip().replace(" ", "_")).lower()
        return snake if snake in self.ours else "" if snake in self.silent else self.names.get(snake)

    def _unwrapped(self, item: Fields) -> Fields:
        for wrapper in self.wrappers:
            inner = item.get(wrapper)
            if isinstance(inner, Mapping):
                rest = {name: value for name, value in item.items() if name not in (wrapper, "name")}
                return {**rest, **cast("Fields", inner)}
        return item

    def _unknown_key(self, name: str, path: str) -> str:
        printable = name if _NAME.fullmatch(name) else "a key"  # else it may be the text that a question is about
        place = f"{path}.{printable}" if path else printable
        if "attributes" in self.ours and not is_like(name, self.ours):
            return f'{place}: unknown key in {self.kind}; write what is your own as "attributes": {{"{printable}": …}}'
        return f"{place}: unknown key in {self.kind}; {suggestion(name, sorted(self.ours))}"


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _named(**ours: str) -> dict[str, str]:
    """Our field names by other libraries' names, given the other way round."""
    return {other: own for own, others in ours.items() for other in others.split()}


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _fields(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


_TURN = _ObjectNames(
    "a turn",
    _fields(Turn),
    _named(
        turn_id="id",
        input="question query prompt user_input",
        actual_output="answer response output completion",
        expected_output="reference ground_truth expected expected_answer reference_output reference_outputs target",
        retrieval_context="contexts retrieved_contexts documents",
        context="reference_contexts",
        expected_tools="reference_tool_calls",
        attributes="metadata additional_metadata",
    ),
    # The fields that DeepEval and Ragas store with a case, and that no evaluator reads.
    _names(
        "name comments tags token_cost completion_time source_file custom_column_key_values rubrics multimodal "
        "retrieved_context_ids reference_context_ids persona_name query_style query_length synthesizer_name "
        "identifier mcp_servers mcp_tools_called mcp_resources_called mcp_prompts_called"
    ),
)
_CONVERSATION = _ObjectNames(
    "a conversation",
    _fields(Conversation),
    _named(
        conversation_id="id thread_id session_id",
        attributes="metadata additional_metadata",
        expected_outcome="expected_output",
    ),
    _TURN.silent | {"user_description", "context"},
)
_CHAT = _ObjectNames(
    "a chat",
    _names("messages id conversation_id user_id model service retrieval_context context expected_output attributes"),
    _named(messages="user_input", expected_output="reference ground_truth", attributes="metadata"),
    _TURN.silent,
)
_TOOL_CALL = _ObjectNames(
    "a tool call",
    _fields(ToolCall),
    _named(
        id="call_id tool_call_id tool_use_id tool_id",
        name="tool tool_name function_name function",
        arguments="input_parameters args input parameters kwargs tool_input tool_kwargs",
        result="output response",
    ),
    _names("type kind part_kind index status description reasoning invalid_args plugin_name jsonrpc method log"),
    ("function", "function_call", "functionCall", "tool_use", "toolUse", "params"),
)
_MESSAGE = _ObjectNames("a message", _fields(Message), _named(content="text", role="type author"))
_FEEDBACK = _ObjectNames("feedback", _fields(Feedback), _named(name="key", value="score", comment="reason explanation"))
_DEFINITION = _ObjectNames(
    "a tool definition",
    _fields(ToolDefinition),
    _named(parameters="input_schema args_schema"),
    frozenset({"type", "strict", "annotations", "output_schema", "title"}),
    ("function",),
)
_USAGE = _ObjectNames(
    "usage",
    _fields(TokenCount),
    _named(input_tokens="prompt_tokens", output_tokens="completion_tokens"),
    _names("total_tokens"),
)
_ATTACHMENT = _ObjectNames("an attachment", _fields(Attachment), {})


def turn_fields(document: Fields) -> dict[str, Any]:
    """The fields of a turn, in our names down to its tool calls and messages; null is unset.

    Raises:
        BadInput: a key is unknown; names its path.
    """
    turn = _TURN.read(document)
    for name, read in _PARTS.items():
        if isinstance(turn.get(name), list):
            turn[name] = [read(item, f"{name}.{number}") for number, item in enumerate(turn[name])]
    if isinstance(turn.get("usage"), Mapping):
        turn["usage"] = _USAGE.read(turn["usage"], "usage")
    return turn


def tool_call_fields(value: object, path: str) -> dict[str, Any]:
    """The fields of a tool call that any of the libraries wrote; arguments in a text are decoded."""
    call = _TOOL_CALL.read(value, path)
    if "arguments" in call:
        call["arguments"] = parse_arguments(call["arguments"])
    return call


def _message(value: object, path: str) -> Any:
    """A message in our shape unchanged, one in another shape as it would be read in a trace."""
    parsed = () if isinstance(_inner(value, "content"), str) else parse_messages([value]).messages
    if parsed and (parsed[0].text or parsed[0].tool_calls):
        return {
            "role": parsed[0].role, "content": parsed[0].text,
            "tool_calls": parsed[0].tool_calls, "tool_call_id": parsed[0].tool_call_id,
        }  # fmt: skip
    message = _MESSAGE.read(value, path)
    if isinstance(message.get("tool_calls"), list):
        calls = cast("list[object]", message["tool_calls"])
        message["tool_calls"] = [tool_call_fields(call, f"{path}.tool_calls.{at}") for at, call in enumerate(calls)]
    return message


def _passage(value: object, _path: str) -> object:
    """The text of a passage: itself, or the text of a document of LangChain, LlamaIndex or Haystack."""
    return next((text for name in ("page_content", "content", "text") if (text := _inner(value, name))), value)


_PARTS: Mapping[str, Callable[[object, str], Any]] = {
    "history": _message, "retrieval_context": _passage, "context": _passage,
    "tools_called": tool_call_fields, "expected_tools": tool_call_fields, "tools_offered": _DEFINITION.read,
    "feedback": _FEEDBACK.read, "attachments": _ATTACHMENT.read,
}  # fmt: skip


_OF_TURNS = ("input", "actual_output", "retrieval_context")


def conversation_fields(document: Fields) -> dict[str, Any]:
    """The fields of a conversation. Turns with `role` and `content` become one turn for each answer.

    Raises:
        BadInput: a key is unknown, or `turns` is no array of objects; names its path.
    """
    if _inner(document, "metadata", "chosen_as"):  # `dataset` writes the texts of its turns a second time
        document = {name: value for name, value in document.items() if name not in _OF_TURNS}
    conversation = _CONVERSATION.read(document)
    turns: object = conversation.get("turns")
    if not isinstance(turns, list):
        raise BadInput("turns must be an array of objects")
    listed = cast("list[dict[str, Any]]", turns)
    for number, turn in enumerate(listed):
        if not isinstance(turn, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - JSON
            raise BadInput(f"turns.{number} must be an object")
    if listed and all("role" in turn for turn in listed):
        conversation["turns"] = list(_answers(listed))
    return conversation


def chat_fields(document: Fields) -> dict[str, Any]:
    """The fields of a chat. Raises BadInput if a key is unknown."""
    return _CHAT.read(document)


def _answers(messages: Sequence[Fields]) -> Iterator[dict[str, Any]]:
    """A turn for each answer, with what the user questions since the one before."""
    questions: list[str] = []
    for message in messages:
        if message["role"] == "user":
            questions.append(str(message.get("content") or ""))
        else:
            yield {
                "input": "\n".join(questions) if questions else None,
                "actual_output": message.get("content"),
                **{name: value for name, value in message.items() if name not in ("role", "content")},
            }
            questions = []


def csv_rows(text: str) -> list[Fields]:
    """The cases of a CSV file, whose first line names the columns; an empty cell is unset.

    Lists are JSON, or one text. A column that is like no field is an attribute of the application's own.

    Raises:
        BadInput: a column is nearly the name of a field, two say the same, or a row has more cells than the first.
    """
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        names = list(map(str.strip, next(rows, [""])))
        if len(names) == 1 and (other := next((sign for sign in ";\t|" if sign in names[0]), None)):
            raise BadInput(f"the first line: columns are separated by {other!r}; separate them by commas")
        if not any(_TURN.own_name(name) or is_like(name, {*_TURN.ours, *_TURN.names}) for name in names):
            raise BadInput(f"the first line: {why_no_case(dict.fromkeys(names))}")
        return [_csv_row(names, row, rows.line_num) for row in rows if row]
    except csv.Error as error:
        remedy = "end each quoted text with a quote, and write a quote within it twice"
        raise BadInput(f"line {rows.line_num}: not CSV ({error}); {remedy}") from None


def _csv_row(names: Sequence[str], row: Sequence[str], line: int) -> Fields:
    if len(row) > len(names):
        raise BadInput(f"line {line} has more cells than the first line has names")
    turn: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, cell in zip(names, row, strict=False):
        field = _TURN.own_name(name)
        if field is None and is_like(name, known := {*_TURN.ours, *_TURN.names}):
            raise BadInput(f"the first line: {name}: unknown key in a turn; {suggestion(name, known)}")
        target, key = (own, name) if field is None else (turn, field)
        value = cell if field is None or field in _TEXTS else _cell(cell)
        if cell and field != "" and target.setdefault(key, value) != value:
            raise BadInput(f"line {line}: two columns give {key!r}, and differ; keep one of them")
    for name in ("context", "retrieval_context"):
        if isinstance(turn.get(name), str):
            turn[name] = [turn[name]]
    return turn | ({"attributes": {**own, **turn.get("attributes", {})}} if own else {})


_TEXTS = frozenset({"input", "actual_output", "expected_output", "system_prompt", "turn_id", "conversation_id"})


def _cell(cell: str) -> Any:
    if cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        return parse_exactly(cell)
    except ValueError:
        return cell


def is_case(document: Fields) -> bool:
    """Whether an object has the keys of a turn with an answer, a conversation or a chat, in anyone's names."""
    keys, own = document.keys(), {_TURN.own_name(name) for name in document}
    return is_chat(document) or bool(keys & {"turns", "actual_output", "turn_id"}) or own >= {"input", "actual_output"}


def why_no_case(document: object) -> str:
    """The reason why a JSON value is no case, with the keys to rename."""
    if isinstance(document, list) and document:
        rows = cast("list[object]", document)
        if all(_inner(row, "role") for row in rows):
            return 'it is a list of messages; write {"messages": […]}'
        document = next((row for row in rows if not _is_row(row)), None)
    if not isinstance(document, Mapping) or not document:
        return 'write {"input": "…", "actual_output": "…"}'
    row = cast("Fields", document)
    names = [str(name)[:_LONGEST_NAME] for name in row]
    have = f"it has the keys {listed(names[:_MOST_NAMED])}{' and others' if len(names) > _MOST_NAMED else ''}"
    lists = {str(name): cast("list[Any]", value) for name, value in row.items() if isinstance(value, list)}
    rows = next((name for name, values in lists.items() if values and _is_row(values[0])), None)
    if rows is not None:
        return f"{have}; if {rows[:_LONGEST_NAME]} has the cases, write that list alone"
    there = {_TURN.own_name(name) for name in row}
    needed = {"input": "the question input", "actual_output": "the answer actual_output"}
    return f"{have}; name {' and '.join(what for own, what in needed.items() if own not in there)}"


_LONGEST_NAME, _MOST_NAMED = 40, 6


def _is_row(value: object) -> bool:
    return isinstance(value, Mapping) and is_case(cast("Fields", value))


def is_chat(document: Fields) -> bool:
    """Whether an object is a chat: its messages are a list, under our name or Ragas's."""
    return "messages" in document or isinstance(document.get("user_input"), list)


def rows_of(document: object) -> list[Fields]:
    """The cases of a file of promptfoo, results or tests; [] if it is none."""
    content: Any = document
    while _inner(content, "results"):
        content = content["results"]
    rows = cast("list[Fields]", content if isinstance(content, list) else [content])
    return [_promptfoo(row) for row in rows] if rows and all(_inner(row, "vars") for row in rows) else []


def _inner(value: Any, *path: str) -> Any:
    """The value at a path of keys; None if there is none."""
    for name in path:
        value = cast("Fields", value).get(name) if isinstance(value, Mapping) else None
    return value


def _promptfoo(row: Fields) -> Fields:
    variables: dict[str, Any] = dict(row["vars"])
    question = next((variables[name] for name in variables if _TURN.names.get(name, name) == "input"), None)
    checks: list[Any] = row.get("assert") or _inner(row, "testCase", "assert") or []
    expected = [_inner(check, "value") for check in checks if _inner(check, "type") in ("equals", "factuality")]
    turn = {
        "input": question or (_inner(row, "prompt", "raw") if len(variables) > 1 else next(iter(variables.values()))),
        "actual_output": _inner(row, "response", "output"),
        "expected_output": next(iter(expected), None),
    }
    turn = {name: value for name, value in turn.items() if isinstance(value, str)}
    context = variables.get("context")
    return turn | ({"context": [context]} if isinstance(context, str) else {})
