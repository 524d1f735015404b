"""Parts a prompt that was built from a template into the user's question and the context put around it.

A retrieval-augmented application sends the model one user message: `Context: … Question: …`. What the user asked is
only a part of it. Where no span tells that part, the message's own headings do, if they leave no doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Parted(NamedTuple):
    """A prompt in its parts."""

    question: str
    context: tuple[str, ...]


_CONTEXT_WORDS = (
    r"(?:retrieved\s+)?context(?:\s+information(?:\s+is\s+below)?)?|(?:retrieved|relevant|supporting|source)?\s*"
    r"(?:documents|passages|sources|excerpts|snippets)|search\s+results|background\s+information|knowledge\s+base|"
    r"reference\s+(?:material|text)"
)
_QUESTION_WORDS = r"question|query|user(?:'s)?\s+(?:question|query|request|input|message)"
_ANSWER_WORDS = r"(?:your\s+|final\s+|helpful\s+)?(?:answer|response|reply|output)|assistant|ai"
_DECOR = r"[ \t]*(?:#{1,6}[ \t]*|\*\*|__|\[|-{3,}[ \t]*)?"
_HEADING = re.compile(
    rf"^{_DECOR}(?:(?P<context>{_CONTEXT_WORDS})|(?P<question>{_QUESTION_WORDS})|(?P<answer>{_ANSWER_WORDS}))"
    r"(?:\*\*|__|\])?[ \t]*(?::|\.?[ \t]*$)(?:\*\*|__)?",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(
    r"<(?P<name>context|documents?|sources?|passages?|search_results|question|query|user_query|user_input)\b[^>]{0,80}>"
    r"(?P<text>.*?)</(?P=name)>",
    re.IGNORECASE | re.DOTALL,
)
_TAG_OPEN = re.compile(r"<(?:context|documents?|sources?|passages?|search_results)\b", re.IGNORECASE)
_RULER = re.compile(r"^[ \t]*[-=_*~`]{3,}[ \t]*$", re.MULTILINE)
_LONGEST = 400_000


def part(prompt: str, hints: Iterable[str] = ()) -> Parted | None:
    """Part a prompt; None if it does not look like one that was filled with context.

    `hints` are texts that may be the question (what a retriever was asked, a template's variable), in the order in
    which to try them: the first one that ends the prompt, or stands in a line of its own after a heading, is.
    """
    if len(prompt) > _LONGEST or ("\n" not in prompt and "<" not in prompt):
        return None
    hinted = _by_hint(prompt, hints)
    if hinted is not None:
        return hinted
    return _by_tags(prompt) or _by_headings(prompt)


def speaks_of_context(beginning: str) -> bool:
    """Whether a prompt, of which only the beginning is known, was filled with context."""
    first = _TAG_OPEN.search(beginning) or next(
        (each for each in _HEADING.finditer(beginning) if each["context"]), None
    )
    return first is not None


def _by_hint(prompt: str, hints: Iterable[str]) -> Parted | None:
    for hint in hints:
        at = prompt.rfind(hint) if len(hint) >= 3 else -1
        before = prompt[: max(at, 0)]
        if not before or not _ends(prompt[at + len(hint) :]) or not _begins(before):
            continue
        context = _context(before)
        if context or before.rstrip(' "').endswith((":", ">")) or len(before) >= 200:
            return Parted(hint, context)
    return None


def _ends(rest: str) -> bool:
    """Whether nothing follows but the place for the answer."""
    rest = _RULER.sub("", rest).strip().strip("\"'`")
    found = _HEADING.match(rest) if rest else None
    return not rest or (found is not None and bool(found["answer"]) and not rest[found.end() :].strip())


def _begins(before: str) -> bool:
    """Whether a text may begin here: after a line's end or a heading."""
    line = before.rpartition("\n")[2].strip()
    return not line or line.endswith((":", ">", '"'))


def _context(before: str) -> tuple[str, ...]:
    """The context in what comes before the question."""
    headings = [found for found in _HEADING.finditer(before) if found["context"] and not _is_passing(before, found)]
    if not headings:
        return ()
    tail = [found for found in _HEADING.finditer(before) if found["question"]]
    end = tail[-1].start() if tail and tail[-1].start() > headings[0].end() else len(before)
    return _tidy(before[headings[0].end() : end])


def _is_passing(text: str, found: re.Match[str]) -> bool:
    return found.start() > 2000 and text.count("\n", 0, found.start()) > 40


def _tidy(text: str) -> tuple[str, ...]:
    """A context without its rulers; where rulers stand around it, only what is between them."""
    parts = [each.strip() for each in _RULER.split(text)]
    text = parts[1] if len(parts) >= 3 and not parts[0] else _RULER.sub("", text).strip()
    return (text,) if text else ()


def _by_tags(prompt: str) -> Parted | None:
    found = list(_TAG.finditer(prompt))
    asked = [each["text"].strip() for each in found if each["name"].lower() in _ASKING]
    context = tuple(
        each["text"].strip() for each in found if each["name"].lower() not in _ASKING and each["text"].strip()
    )
    if not context:
        return None
    if len(asked) == 1 and asked[0]:
        return Parted(asked[0], context)
    rest = _TAG.sub("", prompt).strip()
    if asked or not rest:
        return None
    headings = [each for each in _HEADING.finditer(rest) if each["question"]]
    if headings:
        return (
            Parted(_until_answer(rest[headings[-1].end() :]), context) if rest[headings[-1].end() :].strip() else None
        )
    return Parted(rest, context) if len(rest) <= 2000 else None


_ASKING = frozenset({"question", "query", "user_query", "user_input"})


def _by_headings(prompt: str) -> Parted | None:
    headings = list(_HEADING.finditer(prompt))
    first = next((each for each in headings if each["context"] or each["question"]), None)
    if first is None or len(prompt[: first.start()]) > 1500:
        return None
    questions = [each for each in headings if each["question"]]
    contexts = [each for each in headings if each["context"]]
    if not questions:
        return None
    if not contexts:
        return _by_preface(prompt, questions[-1])
    if questions[-1].start() > contexts[0].start():
        question = _until_answer(prompt[questions[-1].end() :])
        context = _tidy(prompt[contexts[0].end() : questions[-1].start()])
    else:
        question = prompt[questions[-1].end() : contexts[0].start()].strip()
        context = _tidy(_until_answer(prompt[contexts[0].end() :]))
    return Parted(question, context) if question and context else None


_PREFACE = re.compile(r"\b(?:context|documents|passages|sources|excerpts)\b", re.IGNORECASE)


def _by_preface(prompt: str, heading: re.Match[str]) -> Parted | None:
    """A first paragraph that speaks of context, the context itself, and the question under its heading."""
    preface, gap, rest = prompt[: heading.start()].partition("\n\n")
    context = _tidy(rest)
    question = _until_answer(prompt[heading.end() :])
    if not (gap and context and question and len(preface) <= 1500 and _PREFACE.search(preface)):
        return None
    return Parted(question, context)


def _until_answer(text: str) -> str:
    """A text up to the heading of the answer, if that is all that follows."""
    last = [found for found in _HEADING.finditer(text) if found["answer"]]
    if last and not text[last[-1].end() :].strip():
        text = text[: last[-1].start()]
    return _RULER.sub("", text).strip()
