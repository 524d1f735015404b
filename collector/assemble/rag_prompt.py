"""Prompts of retrieval-augmented applications, split into the user's question and the retrieved context.

The application sends the model one user message, `Context: … Question: …`, and the question is only a part of it. If no
span has that part, the message's own headings give it, if they are unambiguous. No model is asked: a split must be the
same at every assembly, because the question is part of the turn's id.

The passages that were retrieved for a turn are found here too, as the model received them.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.call import Call
from collector.records.grouping import group_by


class SplitPrompt(NamedTuple):
    """A prompt in its parts."""

    question: str
    context: tuple[str, ...]


# Two repetitions of the same characters never stand side by side, so that no text makes a pattern backtrack.
_CONTEXT_WORDS = (
    r"(?:retrieved\s{1,4})?context(?:\s{1,4}information(?:\s{1,4}is\s{1,4}below)?)?"
    r"|(?:(?:retrieved|relevant|supporting|source)\s{0,4})?(?:documents|passages|sources|excerpts|snippets)"
    r"|search\s{1,4}results|background\s{1,4}information|knowledge\s{1,4}base|reference\s{1,4}(?:material|text)"
)
_QUESTION_WORDS = r"question|query|user(?:'s)?\s{1,4}(?:question|query|request|input|message)"
_ANSWER_WORDS = r"(?:your\s{1,4}|final\s{1,4}|helpful\s{1,4})?(?:answer|response|reply|output)|assistant|ai"
_DECOR = r"[ \t]*+(?:#{1,6}[ \t]*+|\*\*|__|\[|-{3,}+[ \t]*+)?"
_HEADING = re.compile(
    rf"^{_DECOR}(?:(?P<context>{_CONTEXT_WORDS})|(?P<question>{_QUESTION_WORDS})|(?P<answer>{_ANSWER_WORDS}))"
    r"(?:\*\*|__|\])?[ \t]*+(?::|(?:\.[ \t]*+)?$)(?:\*\*|__)?",
    re.IGNORECASE | re.MULTILINE,
)
_TAG_NAMES = r"context|documents?|sources?|passages?|search_results|question|query|user_query|user_input"
_OPENING = re.compile(rf"<(?P<name>{_TAG_NAMES})\b[^>]{{0,80}}>", re.IGNORECASE | re.ASCII)
_CLOSING = re.compile(rf"</(?P<name>{_TAG_NAMES})>", re.IGNORECASE | re.ASCII)
_TAG_OPEN = re.compile(r"<(?:context|documents?|sources?|passages?|search_results)\b", re.IGNORECASE)
_RULER = re.compile(r"^[ \t]*+[-=_*~`]{3,}+[ \t]*+$", re.MULTILINE)
_MAX_LENGTH = 400_000
_MAX_HINTS = 32
_MAX_ENDING = 2_000
"""Characters after the question that may belong to the heading of the answer and its rulers."""


def split_prompt(prompt: str, hints: Iterable[str] = ()) -> SplitPrompt | None:
    """Split a prompt; None if it does not look like one with retrieved context.

    `hints` are texts that may be the question (a retriever's query, a template's variable), in the order in which they
    are tried: the first one that ends the prompt on a line of its own or after a heading is the question.
    """
    if len(prompt) > _MAX_LENGTH or ("\n" not in prompt and "<" not in prompt):
        return None
    by_hint = _split_by_hint(prompt, hints)
    if by_hint is not None:
        return by_hint
    return _split_below_question(prompt) or _split_by_tags(prompt) or _split_by_headings(prompt)


def mentions_context(beginning: str) -> bool:
    """Whether a prompt, of which only the beginning is known, has retrieved context."""
    first = _TAG_OPEN.search(beginning) or next(
        (match for match in _HEADING.finditer(beginning) if match["context"]), None
    )
    return first is not None


_BELOW = re.compile(r"\n\n(?:Answer using the following information:|Context information is below, surrounded.++)\n")


def _split_below_question(prompt: str) -> SplitPrompt | None:
    """Split a question from the context that LangChain4j and Spring AI put below it, with these sentences."""
    match = _BELOW.search(prompt)
    question, context = (prompt[: match.start()].strip(), _strip_rulers(prompt[match.end() :])) if match else ("", ())
    return SplitPrompt(question, context) if question and context else None


def _split_by_hint(prompt: str, hints: Iterable[str]) -> SplitPrompt | None:
    for hint in islice(hints, _MAX_HINTS):
        start = _find_at_end(prompt, hint) if len(hint) >= 3 else -1
        before = prompt[: max(start, 0)]
        if not before or not _is_end(prompt[start + len(hint) :]) or not _is_start(before):
            continue
        context = _find_context(before)
        if context or before.rstrip(' "').endswith((":", ">")) or len(before) >= 200:
            return SplitPrompt(hint, context)
    return None


def _find_at_end(prompt: str, hint: str) -> int:
    """Find the last place of a hint near the end of a prompt; -1 if there is none.

    Backwards with `find`, because `rfind` takes the product of both lengths in the worst case.
    """
    distance = prompt[-len(hint) - _MAX_ENDING :][::-1].find(hint[::-1])
    return len(prompt) - distance - len(hint) if distance >= 0 else -1


def _is_end(rest: str) -> bool:
    """Whether nothing follows but the heading of the answer."""
    rest = _RULER.sub("", rest).strip().strip("\"'`")
    match = _HEADING.match(rest) if rest else None
    return not rest or (match is not None and bool(match["answer"]) and not rest[match.end() :].strip())


def _is_start(before: str) -> bool:
    """Whether a question may start here: after a line's end or a heading."""
    line = before.rpartition("\n")[2].strip()
    return not line or line.endswith((":", ">", '"'))


def _find_context(before: str) -> tuple[str, ...]:
    """Find the context in the text before the question."""
    headings = list(_HEADING.finditer(before))
    first = next((match for match in headings if match["context"]), None)
    if first is None or (first.start() > 2000 and before.count("\n", 0, first.start()) > 40):
        return ()  # so late, a heading is incidental, and the later occurrences are, too
    tail = [match for match in headings if match["question"]]
    end = tail[-1].start() if tail and tail[-1].start() > first.end() else len(before)
    return _strip_rulers(before[first.end() : end])


def _strip_rulers(text: str) -> tuple[str, ...]:
    """A context without its rulers; if rulers surround it, only the text between them."""
    parts = [part.strip() for part in _RULER.split(text)]
    text = parts[1] if len(parts) >= 3 and not parts[0] else _RULER.sub("", text).strip()
    return (text,) if text else ()


class _Tag(NamedTuple):
    """A tag with the text up to the first closing tag of its name."""

    name: str
    text: str
    start: int
    end: int


def _find_tags(prompt: str) -> list[_Tag]:
    """Find the tags of retrieved context and questions, none inside another; one that is not closed does not count."""
    closings = group_by(_CLOSING.finditer(prompt), lambda match: match["name"].lower())
    for matches in closings.values():
        matches.reverse()  # the next one is the last
    tags: list[_Tag] = []
    end = 0
    for opening in _OPENING.finditer(prompt):
        if opening.start() < end:
            continue
        ahead = closings.get(opening["name"].lower(), [])
        while ahead and ahead[-1].start() < opening.end():
            ahead.pop()
        if ahead:
            end = ahead[-1].end()
            text = prompt[opening.end() : ahead[-1].start()].strip()
            tags.append(_Tag(opening["name"].lower(), text, opening.start(), end))
    return tags


def _cut(prompt: str, tags: Sequence[_Tag]) -> str:
    """The prompt without its tags."""
    starts = [0, *(tag.end for tag in tags)]
    ends = [*(tag.start for tag in tags), len(prompt)]
    return "".join(prompt[start:end] for start, end in zip(starts, ends, strict=True)).strip()


def _split_by_tags(prompt: str) -> SplitPrompt | None:
    tags = _find_tags(prompt)
    questions = [tag.text for tag in tags if tag.name in _QUESTION_TAGS]
    context = tuple(tag.text for tag in tags if tag.name not in _QUESTION_TAGS and tag.text)
    if not context:
        return None
    if len(questions) == 1 and questions[0]:
        return SplitPrompt(questions[0], context)
    rest = _cut(prompt, tags)
    if questions or not rest:
        return None
    headings = [match for match in _HEADING.finditer(rest) if match["question"]]
    if headings:
        question = rest[headings[-1].end() :]
        return SplitPrompt(_cut_answer_heading(question), context) if question.strip() else None
    return SplitPrompt(rest, context) if len(rest) <= 2000 else None


_QUESTION_TAGS = frozenset({"question", "query", "user_query", "user_input"})


def _split_by_headings(prompt: str) -> SplitPrompt | None:
    headings = list(_HEADING.finditer(prompt))
    first = next((match for match in headings if match["context"] or match["question"]), None)
    if first is None or len(prompt[: first.start()]) > 1500:
        return None
    questions = [match for match in headings if match["question"]]
    contexts = [match for match in headings if match["context"]]
    if not questions:
        return None
    if not contexts:
        return _split_by_preface(prompt, questions[-1])
    if questions[-1].start() > contexts[0].start():
        question = _cut_answer_heading(prompt[questions[-1].end() :])
        context = _strip_rulers(prompt[contexts[0].end() : questions[-1].start()])
    else:
        question = prompt[questions[-1].end() : contexts[0].start()].strip()
        context = _strip_rulers(_cut_answer_heading(prompt[contexts[0].end() :]))
    return SplitPrompt(question, context) if question and context else None


_PREFACE = re.compile(r"\b(?:context|documents|passages|sources|excerpts)\b", re.IGNORECASE)


def _split_by_preface(prompt: str, heading: re.Match[str]) -> SplitPrompt | None:
    """Split a first paragraph that mentions context, the context itself, and the question under its heading."""
    preface, gap, rest = prompt[: heading.start()].partition("\n\n")
    context = _strip_rulers(rest)
    question = _cut_answer_heading(prompt[heading.end() :])
    if not (gap and context and question and len(preface) <= 1500 and _PREFACE.search(preface)):
        return None
    return SplitPrompt(question, context)


def _cut_answer_heading(text: str) -> str:
    """Cut the heading of the answer, if nothing follows it."""
    last = [match for match in _HEADING.finditer(text) if match["answer"]]
    if last and not text[last[-1].end() :].strip():
        text = text[: last[-1].start()]
    return _RULER.sub("", text).strip()


_QUESTIONS = frozenset({"question", "query", "query_str", "input", "user_input", "user_question", "user_query", "q"})
_CONTEXTS = frozenset({"context", "context_str", "documents", "docs", "sources", "passages", "search_results"})


def find_question_hints(parsed_spans: Sequence[ParsedSpan]) -> list[str]:
    """Find texts that may be the user's question inside a longer prompt: retrievers' queries, templates' variables.

    Each once, the longest first.
    """
    texts: list[str] = []
    for parsed_span in parsed_spans:
        if parsed_span.call.query:
            texts.append(parsed_span.call.query)
        if parsed_span.call.variables:
            texts += [value for name, value in parsed_span.call.variables.items() if name.lower() in _QUESTIONS]
    return sorted({text.strip() for text in texts}, key=lambda text: (-len(text), text)) if texts else texts


def split_question(draft: TurnDraft, hints: Sequence[str]) -> None:
    """Split the user's question from retrieved context: in the enclosing span's question, else in the prompt."""
    for text in (draft.question, draft.prompt):
        parts = split_prompt(text, hints) if text else None
        if parts is not None:
            draft.context = parts.context
            if text == draft.question:
                draft.prompt, draft.question = draft.prompt or text, parts.question
            return


class PassageIndex:
    """The passages of a trace's spans, indexed by time and ancestor, so that each draft only searches its own part."""

    def __init__(self, parsed_spans: Sequence[ParsedSpan], tree: SpanTree) -> None:
        """`parsed_spans` are in order of their starts."""
        self._tree = tree
        self._sources: list[ParsedSpan] = []
        self._contexts: dict[str, list[str]] = {}
        filled = [parsed for parsed in parsed_spans if parsed.call.variables or parsed.call.passages]
        if not filled:
            return
        for parsed_span in filled:
            if parsed_span.call.passages and parsed_span.call.kind in {"retrieval", "auxiliary"}:
                self._sources.append(parsed_span)
        self._starts = [span.span.start for span in self._sources]
        # For each span the earliest end from it on: a search stops where no later span ended in time.
        self._next_end = list(accumulate((span.span.end for span in reversed(self._sources)), min))[::-1]
        self._below: dict[str, list[int]] = {}
        for index, parsed_span in enumerate(self._sources):
            for ancestor in tree.ancestors(parsed_span.span.span_id):
                self._below.setdefault(ancestor, []).append(index)
        for parsed_span in filled:
            if texts := _find_contexts(parsed_span.call):
                self._contexts[parsed_span.span.span_id] = texts
        self._templates: dict[str, list[ParsedSpan]] = {}
        for parsed_span in filled:
            if (
                parsed_span.call.kind == "other"
                and parsed_span.span.parent_span_id
                and parsed_span.span.span_id in self._contexts
            ):
                self._templates.setdefault(parsed_span.span.parent_span_id, []).append(parsed_span)

    def find(self, draft: TurnDraft, previous_end: int) -> tuple[str, ...]:
        """Find the texts of the documents retrieved for a draft, each once, in the order of their spans.

        These are the retrievals that began after `previous_end`, the end of the draft before, and ended before the
        draft's last call. A reranker's choice replaces its candidates. If spans have only ids, the variables of the
        prompt's template are used.
        """
        if not (self._sources or self._contexts):
            return draft.context
        nearby_sources = [self._sources[index] for index in sorted(self._find_sources(draft, previous_end))]
        reranked = [span for span in nearby_sources if span.call.kind == "auxiliary"]
        passages = [passage for parsed_span in reranked or nearby_sources for passage in parsed_span.call.passages]
        texts = tuple(dict.fromkeys(passage.text for passage in passages if passage.text.strip()))
        if texts or not self._contexts:
            return texts or draft.context
        nearby_ids = self._collect_own_and_ancestors(draft) | self._find_templates(draft, previous_end)
        variables = (text for span_id, context in self._contexts.items() if span_id in nearby_ids for text in context)
        return tuple(dict.fromkeys(text for text in variables if text.strip())) or draft.context

    def _find_sources(self, draft: TurnDraft, previous_end: int) -> set[int]:
        last = draft.last
        indexes = (
            set(self._below.get(draft.enclosing_span.span.span_id, ()))
            if draft.enclosing_span is not None
            else set[int]()
        )
        for index in range(bisect_left(self._starts, previous_end), len(self._sources)):
            if last is None or self._sources[index].span.end <= last.span.end:
                indexes.add(index)
            elif self._next_end[index] > last.span.end:
                break
        return indexes

    def _collect_own_and_ancestors(self, draft: TurnDraft) -> set[str]:
        """The ids of a draft's spans, and of those above them."""
        own_ids = {span_id for call in draft.calls for span_id in call.span_ids}
        return own_ids | {ancestor for span_id in own_ids for ancestor in self._tree.ancestors(span_id)}

    def _find_templates(self, draft: TurnDraft, previous_end: int) -> set[str]:
        """Find the ids of the steps beside the draft's calls that filled the prompt template of one of the calls."""
        span_ids: set[str] = set()
        for call in draft.calls:
            siblings = self._templates.get(call.span.parent_span_id or "", ())
            first = bisect_left(siblings, previous_end, key=lambda each: each.span.start)
            last = bisect_right(siblings, call.span.start, key=lambda each: each.span.start)
            span_ids.update(span.span.span_id for span in siblings[first:last])
        return span_ids


def _find_contexts(call: Call) -> list[str]:
    """Find the context that a prompt was filled with: the passages of a program's inputs, or a template's variables."""
    if call.passages and call.kind == "model":
        return [passage.text for passage in call.passages]
    return [value for name, value in call.variables.items() if name.lower() in _CONTEXTS] if call.variables else []
