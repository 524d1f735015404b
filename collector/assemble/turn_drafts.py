"""Turn drafts. A draft has the model calls that one user request led to, up to the call that answers the user.

A *step* is a model call that requests tools, so that its turn continues. A *program* is structured code (DSPy modules,
typed outputs of Instructor and generateObject, flows) whose inputs and outputs have names: these are its *fields*.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from collector.assemble.model_calls import ModelCall, normalize_whitespace
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.dialects.decode import as_dict, decode
from collector.otlp.span import Attributes
from evaluators.cases import Json


@dataclass(slots=True, eq=False)
class TurnDraft:
    """A turn while it is put together from one trace; mutable, since enclosing spans and prompts are added later.

    `calls` are its model calls in order: the steps, and then `final`, the call that ended the turn with an answer or an
    error. `enclosing_span` is the span around the calls that has question and answer as the user saw them. A draft has
    calls, an enclosing span, or both.
    """

    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    final: ModelCall | None = None
    question: str | None = None
    answer: str | None = None
    error: str | None = None
    prompt: str | None = None
    """The user message that the model received, if `question` is only a part of it."""
    context: tuple[str, ...] = ()
    enclosing_span: ParsedSpan | None = None

    @property
    def last(self) -> ModelCall | None:
        """The last call: `final`, or a step if there is no final call."""
        return self.calls[-1] if self.calls else None

    @property
    def start(self) -> int:
        """The start of the turn in nanoseconds since 1970."""
        if self.calls:
            return self.calls[0].span.start
        return self.enclosing_span.span.start if self.enclosing_span else 0

    @property
    def end(self) -> int:
        """The end of the turn in nanoseconds since 1970."""
        if len(self.calls) == 1:
            return self.calls[0].span.end
        if self.calls:
            return max([call.span.end for call in self.calls])
        return self.enclosing_span.span.end if self.enclosing_span else 0


@dataclass(slots=True)
class _Group:
    """The calls that answer the same user message. `open_steps` are steps after which no call has ended the turn yet.

    `failed` is the last draft if it ended with an error: the request's next failure takes the place of that error.
    """

    open_steps: list[ModelCall] = field(default_factory=list[ModelCall])
    failed: TurnDraft | None = None
    drafts: list[TurnDraft] = field(default_factory=list[TurnDraft])


_Key = tuple[str, int] | str
"""A group's question and the number of user messages up to it; if no question is known, a text made of a span's id."""


def draft_turns(calls: Sequence[ModelCall], tree: SpanTree) -> list[TurnDraft]:
    """Group the model calls of a trace into drafts, in order of their ends.

    Calls with the same last user message belong to one draft, up to the first call that requests no tool. A call with
    only tool results in its input continues the draft that requested these tools. Successive failures of the same
    request are one failed draft; a success after them is another draft.

    The calls are grouped by content, not by spans, because parent spans may be missing, and the span of one agent may
    have several turns.
    """
    if len(calls) == 1:
        only = calls[0]
        if only.call.error is not None:
            return [TurnDraft([only], only, question=only.question, error=only.call.error)]
        return [_make_draft((only,), None) if only.is_step else _make_draft((), only)]
    groups: dict[_Key, _Group] = {}
    for call in calls:
        group = groups.setdefault(_group_key(call, groups, tree), _Group())
        if call.call.error is not None:
            _add_failure(group, call)
        elif call.is_step:
            group.open_steps.append(call)
        else:
            _add_answer(group, call)
    return sort_by_end([draft for group in groups.values() for draft in _close_group(group)])


def sort_by_end(drafts: list[TurnDraft]) -> list[TurnDraft]:
    """The drafts in order of their ends."""
    return sorted(drafts, key=lambda draft: (draft.end, draft.start, draft.last.span.span_id if draft.last else ""))


def _close_group(group: _Group) -> Iterable[TurnDraft]:
    yield from group.drafts
    if group.open_steps and not (group.failed and group.failed.calls[:-1] == group.open_steps):
        yield _make_draft(group.open_steps, None)


def _group_key(call: ModelCall, groups: dict[_Key, _Group], tree: SpanTree) -> _Key:
    if call.question is not None:
        key = normalize_whitespace(call.question), call.user_message_count
        return key if key in groups else _find_shortened_group(key[0], call, groups) or key
    continued_key = _find_continued_group(call, groups)
    if continued_key is not None:
        return continued_key
    # no user message is known: the calls below one parent belong to one request
    ancestors = tree.ancestors(call.span.span_id)
    return f"below {ancestors[0]}" if ancestors else call.span.span_id


def _find_shortened_group(question: str, call: ModelCall, groups: dict[_Key, _Group]) -> _Key | None:
    """Find the group that a call with tool results continues: the same question, but a history that lost messages.

    A chat memory keeps only the latest messages, so a call may have fewer user messages than the call before it.
    """
    later = (call.call.input or ())[call.question_index + 1 :]
    if not later or all(message.role != "tool" for message in later):
        return None
    longer = ((question, call.user_message_count + dropped) for dropped in range(1, 17))  # up to 16 lost messages
    return next((key for key in longer if key in groups and groups[key].open_steps), None)


def _find_continued_group(call: ModelCall, groups: dict[_Key, _Group]) -> _Key | None:
    """Find the group that a call with only tool results in its input continues."""
    answered_ids = {
        message.tool_call_id for message in call.call.input or () if message.role == "tool" and message.tool_call_id
    }
    open_groups = [(key, group) for key, group in groups.items() if group.open_steps]
    if not call.call.input:  # some libraries record no input if it is only tool results
        candidates = [key for key, group in open_groups if _may_follow(group.open_steps[-1], call)]
        return candidates[0] if len(candidates) == 1 else None
    if not any(message.role == "tool" for message in call.call.input):
        return None
    for key, group in open_groups:
        if any(tool_call.id in answered_ids for step in group.open_steps for tool_call in step.pending_tool_calls):
            return key
    return open_groups[-1][0] if open_groups else None


def _may_follow(step: ModelCall, call: ModelCall) -> bool:
    """Whether a call without any input may follow a step: both have the same parent span, and the step ended first."""
    parent_id = call.span.parent_span_id
    return parent_id is not None and parent_id == step.span.parent_span_id and step.span.end <= call.span.start


def _add_failure(group: _Group, call: ModelCall) -> None:
    if group.failed is None:
        group.failed = TurnDraft()
        group.drafts.append(group.failed)
    group.failed.calls = [*group.open_steps, call]
    group.failed.final = call
    group.failed.error = call.call.error
    group.failed.question = call.question or _find_last_question(group.open_steps)


def _add_answer(group: _Group, call: ModelCall) -> None:
    """End a draft with the answer of a call.

    If the call's history has an earlier draft's answer after the question, that answer was only a step; so was an
    earlier draft without text. The calls of that draft then become steps of the new draft.
    """
    if call.answer and group.drafts and any(_is_copy(draft, call) for draft in group.drafts):
        return
    later = (call.call.input or ())[call.question_index + 1 :]
    later_answers = {normalize_whitespace(message.text) for message in later if message.role == "assistant"}
    for draft in list(group.drafts) if later else ():
        if draft.final is None:
            continue
        if normalize_whitespace(draft.answer) in later_answers if draft.answer else _is_empty_and_earlier(draft, call):
            group.drafts.remove(draft)
            group.open_steps = [*draft.calls, *group.open_steps]
    group.drafts.append(_make_draft(group.open_steps, call))
    group.open_steps, group.failed = [], None


def _is_empty_and_earlier(draft: TurnDraft, call: ModelCall) -> bool:
    """Whether a draft has neither an answer's text nor an error, and ended before a call started."""
    return draft.error is None and not draft.answer and draft.final is not None and draft.end <= call.span.start


def _is_copy(draft: TurnDraft, call: ModelCall) -> bool:
    """Whether a call overlaps in time with the final call of a draft, and gives the same answer."""
    if draft.final is None or draft.error is not None or call.answer is None or draft.answer is None:
        return False
    overlap = call.span.start <= draft.final.span.end and draft.final.span.start <= call.span.end
    return overlap and normalize_whitespace(draft.answer) == normalize_whitespace(call.answer) and bool(draft.answer)


def _make_draft(steps: Sequence[ModelCall], final: ModelCall | None) -> TurnDraft:
    question = (final.question if final else None) or _find_last_question(steps)
    return TurnDraft([*steps, final] if final else list(steps), final, question, final.answer if final else None)


def _find_last_question(steps: Sequence[ModelCall]) -> str | None:
    return next((step.question for step in reversed(steps) if step.question is not None), None)


_INPUTS = (
    "input.value", "traceloop.entity.input", "genkit:input", "mlflow.spanInputs", "langfuse.observation.input",
    "logfire.input", "gen_ai.prompt", "input",
)  # fmt: skip
_OUTPUTS = (
    "output.value", "traceloop.entity.output", "genkit:output", "mlflow.spanOutputs", "langfuse.observation.output",
    "logfire.output", "gen_ai.completion", "output",
)  # fmt: skip
"""`_INPUTS` and `_OUTPUTS` are the attributes in which libraries put a span's inputs and outputs; the first one that a
span has counts."""
_WRAPPERS = ("kwargs", "inputs", "input_args")
"""Keys under which libraries put the named arguments of a function."""
_MESSAGES = frozenset({"messages", "contents", "choices", "candidates", "generations", "role", "parts", "lc", "args"})
"""Keys of chat messages and similar shapes. An object with one of them has no fields of a program."""
_NOTHING: Mapping[str, Json] = MappingProxyType({})
_LONGEST_DOCUMENT = 100_000
_LONGEST_TEXT = 16_384
MOST_FIELDS = 32
"""The most fields of a turn, inputs and outputs together."""


def find_program_fields(draft: TurnDraft, question: str | None, answer: str | None) -> dict[str, Json]:
    """Find `inputs.<name>` and `outputs.<name>` of a draft; {} if neither inputs nor outputs have names.

    If the answer is a JSON object, its fields are the outputs. Otherwise the outputs are those of the enclosing span,
    if one of these is the answer. The inputs are those of the enclosing span, if outputs were found or if one of the
    inputs is the question.
    """
    enclosing_span = draft.enclosing_span
    if not answer or (enclosing_span is None and answer[0] != "{"):
        return {}
    attributes: Attributes = enclosing_span.span.attributes if enclosing_span is not None else {}
    outputs = _parse_object(answer) or _if_has_text(_find_object(attributes, _OUTPUTS), answer)
    inputs = _find_object(attributes, _INPUTS)
    if not outputs:
        inputs = _if_has_text(inputs, question)
    return dict((*_name("inputs", inputs), *_name("outputs", outputs))[:MOST_FIELDS])


def _find_object(attributes: Attributes, names: Iterable[str]) -> Mapping[str, Json]:
    value = next((attributes[name] for name in names if name in attributes), None) if attributes else None
    if value is None:
        return _NOTHING
    fields = _parse_object(value) if isinstance(value, str) else as_dict(value)
    for wrapper in _WRAPPERS:
        if inner := as_dict(fields.get(wrapper)):
            fields = inner
    return fields if fields.keys().isdisjoint(_MESSAGES) else _NOTHING


def _parse_object(text: str) -> Mapping[str, Json]:
    """Parse a JSON object. With `messages` near its start it is the long state of a chain, and is not decoded."""
    if len(text) > _LONGEST_DOCUMENT or not text.startswith("{") or '"messages"' in text[:40]:
        return _NOTHING
    return as_dict(decode(text))


def _if_has_text(fields: Mapping[str, Json], text: str | None) -> Mapping[str, Json]:
    """The fields if one of them is this text, else none."""
    if not text or not fields:
        return _NOTHING
    wanted = normalize_whitespace(text)
    is_there = any(isinstance(field, str) and normalize_whitespace(field) == wanted for field in fields.values())
    return fields if is_there else _NOTHING


def _name(side: str, fields: Mapping[str, Json]) -> Iterable[tuple[str, Json]]:
    for name, value in fields.items():
        if name.isidentifier() and value is not None:
            yield f"{side}.{name}", value[:_LONGEST_TEXT] if isinstance(value, str) else value
