"""The asking of a pack over a chat endpoint: its request, and one more for unreadable entries."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from evaluators.asking.prompt_isolation import keys_request
from evaluators.errors import JudgeReplyInvalid
from evaluators.judges.chats import Chat
from evaluators.judges.completions import Choice
from evaluators.judges.requests import messages_of_pack
from evaluators.packs.packed_prompt import Entry, NamedQuestion, PackPrompt, PackReply, read_pack

Complete: TypeAlias = Callable[[Chat, Sequence[NamedQuestion]], Awaitable[Choice]]
"""Sends messages that ask these questions, and gives the answer."""

_QUOTED = 4000
"""The most characters of an answer that is sent back."""


async def ask_pack(
    pack: PackPrompt, secret: bytes | None, complete: Complete, marker: str | None = None
) -> tuple[PackReply, Choice]:
    """Ask a pack's questions in one request; questions with unreadable entries are asked once more, together.

    Raises:
        JudgeReplyInvalid: the judge refused the whole of it, of type `judge_refused`.
    """
    chat, keys = messages_of_pack(pack, secret, marker)
    questions = pack.named(keys)
    choice = await complete(chat, questions)
    if choice.refused:
        raise JudgeReplyInvalid("the judge refused to answer", type="judge_refused")
    entries = dict(read_pack(choice.text, choice.tokens, questions, cut=choice.finish_reason == "length"))
    if broken := [question for question in questions if _mistake(entries.get(question.name)) == JudgeReplyInvalid.type]:
        again = await complete(_complaint(chat, choice.text, broken, entries), broken)
        if not again.refused:
            entries |= read_pack(again.text, again.tokens, broken, cut=again.finish_reason == "length")
    short = JudgeReplyInvalid("the answer was cut off at its length limit", type="judge_reply_truncated")
    unreached = frozenset(
        at for at, question in enumerate(questions) if _mistake(entries.get(question.name, short)) == short.type
    )
    reply = PackReply(entries=tuple(entries.get(question.name, short) for question in questions), unreached=unreached)
    return reply, choice


def _mistake(entry: Entry | None) -> str | None:
    """The type of an error: one of `JudgeReplyInvalid.type` is worth asking again, not an answer that was cut off."""
    return entry.type if isinstance(entry, JudgeReplyInvalid) else None


def _complaint(chat: Chat, text: str, broken: Sequence[NamedQuestion], entries: dict[str, Entry]) -> Chat:
    wrong = "; ".join(f"{question.name}: {entries[question.name]}" for question in broken)
    names = ", ".join(f'"{question.name}"' for question in broken)
    request = f"Answer these again: one JSON object with the entries {names} and nothing else."
    keys = {question.name: question.key for question in broken if question.key is not None}
    complaint = f"Some entries could not be read: {wrong}. {request}"
    return [
        *chat,
        {"role": "assistant", "content": (text if len(text) <= _QUOTED else text[:_QUOTED] + " […]") or "(no answer)"},
        {"role": "user", "content": f"{complaint} {keys_request(keys)}" if keys else complaint},
    ]
