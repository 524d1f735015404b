"""The messages of a request, and the sentences at their end."""

from collections.abc import Callable, Mapping
from typing import Any

from evaluators.cases import Json
from evaluators.judges.answer_places import mapping

Chat = list[dict[str, Json]]
"""The messages of a request."""

GO = "Do what the instructions ask, and answer in the form they give."
"""The last sentence to a judge that got no material."""

ALONE = "Give the verdict alone, at once: the same JSON object without any reason in it."
"""The text after a question whose answer was cut off in its reasons."""


def text_of(message: Mapping[str, Json]) -> str:
    """The text of a chat message, without its pictures."""
    content = message["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def with_parts(message: Mapping[str, Json], part: Callable[[Mapping[str, Any]], Json]) -> dict[str, Json]:
    """A chat message, its text and pictures as a wire format's `part` writes them."""
    content = message["content"]
    parts = content if isinstance(content, str) else [part(mapping(each)) for each in content]
    return {"role": message["role"], "content": parts}


def question_text(chat: Chat) -> str:
    """The texts of all messages but the system's; they include the judged text."""
    return " ".join(text_of(message) for message in chat if message["role"] != "system")


def judged_text(chat: Chat) -> str:
    """The material within its markers, without our own words around it; the whole text if nothing is marked."""
    text = question_text(chat)
    material, _, _ = text.partition(">>>\n")[2].rpartition("\n<<<end of material")
    return material or text


def without_system(chat: Chat) -> Chat:
    """The messages with the system's at the beginning of the user's first."""
    system, user, *rest = chat
    if system["role"] != "system":
        return chat
    content = user["content"]
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    text = f"{text_of(system)}\n\n{parts[0]['text']}"
    merged: Json = text if isinstance(content, str) else [{**parts[0], "text": text}, *parts[1:]]
    return [{**user, "content": merged}, *rest]


def with_text(chat: Chat, text: str) -> Chat:
    """The messages with one more sentence at the end of the last message, before its pictures."""
    *before, last = chat
    content = last["content"]
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content} {text}"}]
    first, *pictures = content
    return [*before, {**last, "content": [{**first, "text": f"{first['text']} {text}"}, *pictures]}]
