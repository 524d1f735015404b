"""The link stage: a turn without a conversation id belongs to the conversation that its history repeats.

A conversation starts with a turn that has no history, and each turn extends it. Two people who start with the same
words and get the same answer have two conversations. A turn that may continue either goes to the younger one. A turn
whose first exchange was never seen, because it is older, was cut off or consists of examples, is a conversation of its
own. If the endpoint keeps the history, a turn names the previous response instead, and belongs to the conversation of
that response.

The linker has no clock and no log; a fold over the unlinked turns appends them with their ids to the turns log.
"""

import asyncio
import hashlib
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

from collector.errors import BadInput
from collector.logs.log import Committed, Log, Record, StoredRecord, append_until_durable
from collector.records.json import turn_from_json
from collector.records.tenants import own_conversation, tenant_of
from collector.records.turns import turn_record
from evaluators.cases import Turn

HistoryDigest = bytes
"""The digest of service, user and all exchanges so far, in order."""


class History(NamedTuple):
    """The place of a turn in its conversation.

    `opening` is the digest of the first exchange. `before` is the digest of all exchanges before the turn, None for the
    first turn. `after` is the digest that the next turn will repeat. `opening` and `after` are None while there is no
    answer.
    """

    opening: HistoryDigest | None
    before: HistoryDigest | None
    after: HistoryDigest | None


RESPONSE = "resp_"
"""The prefix of response ids of OpenAI's API."""


def is_pointer(conversation: str | None) -> bool:
    """Whether an id is a response id of OpenAI's API: libraries write the previous response as the conversation."""
    return conversation is not None and conversation.startswith(RESPONSE)


def follows_responses(turn: Turn) -> bool:
    """Whether a turn may be linked with others by the ids of their responses."""
    return is_pointer(turn.conversation_id) or is_pointer(turn.response_id)


def history_of(turn: Turn) -> History:
    """Compute the history that a turn repeats.

    Only messages of the user and answers count: system prompts contain the date, some applications omit what tools
    returned, and an attempt without an answer may be repeated or not.
    """
    opening: HistoryDigest | None = None
    digest = _empty(turn)
    before: HistoryDigest | None = None
    for question, answer in _exchanges(turn):
        before = digest = extend(digest, question, answer)
        opening = opening or digest
    if not turn.input or not turn.actual_output:
        return History(opening, before, before)
    after = extend(digest, turn.input, turn.actual_output)
    return History(opening or after, before, after)


def extend(digest: HistoryDigest, question: str, answer: str) -> HistoryDigest:
    """The digest of the conversation after one more exchange. White space makes no difference."""
    words = "\x1f".join((" ".join(question.split()), " ".join(answer.split())))
    return hashlib.blake2b(digest + words.encode(errors="replace"), digest_size=16).digest()


def _empty(turn: Turn) -> HistoryDigest:
    who = f"{turn.service or ''}\x1f{turn.user_id or ''}"
    if tenant := tenant_of(turn):
        who += f"\x1f{tenant}"  # the same words to two tenants are two conversations
    return hashlib.blake2b(who.encode(errors="replace"), digest_size=16).digest()


def _exchanges(turn: Turn) -> Iterator[tuple[str, str]]:
    """The user's messages, each with its last answer: earlier ones are texts that accompany tool calls."""
    question = answer = ""
    for message in turn.history:
        if not message.content.strip():
            continue
        if message.role == "user":
            if question and answer:
                yield question, answer
            question, answer = message.content, ""
        elif message.role == "assistant":
            answer = message.content
    if question and answer:
        yield question, answer


MOST = 200_000
"""The most conversations that are remembered in a partition; the oldest are forgotten first."""


@dataclass(slots=True, eq=False)
class _Chat:
    """A conversation that may continue. `first` is the offset of its first turn, times are in seconds."""

    conversation_id: str
    first: int
    started: float
    touched: float
    digest: HistoryDigest
    turns: list[str] = field(default_factory=list[str])
    traces: set[str] = field(default_factory=set[str])
    responses: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class ConversationLinker:
    """The conversations of one partition that may continue.

    One is remembered for `window` seconds after its last turn, and for `max_age` after its first, so that a replay need
    not start further back. Call it in the order of the log, whose times never decrease.
    """

    def __init__(self, *, window: float = 3600.0, max_age: float = 21_600.0, most: int = MOST) -> None:
        self._window = window
        self._max_age = max_age
        self._most = most
        self._chats: OrderedDict[int, _Chat] = OrderedDict()  # by their first offsets, which ascend
        self._touched: OrderedDict[int, _Chat] = OrderedDict()  # the same, with the last used at the end
        self._by_digest: dict[HistoryDigest, list[_Chat]] = {}  # conversations with the same history, by first offset
        self._turns: dict[str, _Chat] = {}
        self._traces: dict[str, _Chat] = {}
        self._responses: dict[tuple[str, str], _Chat] = {}  # by tenant and id

    def __len__(self) -> int:
        return len(self._chats)

    @property
    def low_watermark(self) -> int | None:
        """The first turn of the oldest conversation that is remembered."""
        return next(iter(self._chats), None)

    def conversation_of(self, turn: Turn, offset: int, time: float) -> str:
        """The conversation of the turn at an offset. Its id is that of its first turn's trace.

        A turn that is delivered again gets the same result; so do all turns of one trace.
        """
        self._forget(time)
        known = self._turns.get(turn.turn_id)
        if known is not None:
            return known.conversation_id
        history = history_of(turn)
        chat = self._traces.get(own_conversation(turn)) if turn.trace_id else None
        if chat is None and turn.conversation_id is not None:
            chat = self._responses.get((tenant_of(turn), turn.conversation_id))
        if chat is None and history.before is not None:
            chat = next(reversed(self._by_digest.get(history.before, ())), None)
        elif chat is None and turn.conversation_id is None:  # after an unseen response, none starts
            chat = self._start(turn, offset, time)
        if chat is None:
            return own_conversation(turn)
        self._add(chat, turn, history.before, history.after, time)
        return chat.conversation_id

    def _start(self, turn: Turn, offset: int, time: float) -> _Chat:
        chat = _Chat(own_conversation(turn), offset, time, time, b"")
        self._chats[offset] = self._touched[offset] = chat
        self._by_digest.setdefault(b"", []).append(chat)
        return chat

    def _add(
        self, chat: _Chat, turn: Turn, before: HistoryDigest | None, after: HistoryDigest | None, time: float
    ) -> None:
        chat.turns.append(turn.turn_id)
        self._turns[turn.turn_id] = chat
        if turn.trace_id:
            trace = own_conversation(turn)
            chat.traces.add(trace)
            self._traces[trace] = chat
        if is_pointer(turn.response_id):
            response = (tenant_of(turn), turn.response_id or "")
            chat.responses.add(response)
            self._responses[response] = chat
        chat.touched = time
        self._touched.move_to_end(chat.first)
        if after is None:
            return
        if not chat.digest or before == chat.digest:
            self._extend(chat, after)
        elif before is None:  # turns of one trace need not repeat their history
            self._extend(chat, extend(chat.digest, turn.input or "", turn.actual_output or ""))

    def _extend(self, chat: _Chat, digest: HistoryDigest) -> None:
        self._unindex(chat)
        chat.digest = digest
        insort(self._by_digest.setdefault(digest, []), chat, key=_first)

    def _unindex(self, chat: _Chat) -> None:
        same = self._by_digest[chat.digest]
        del same[bisect_left(same, chat.first, key=_first)]
        if not same:
            del self._by_digest[chat.digest]

    def _forget(self, time: float) -> None:
        while self._touched and (oldest := next(iter(self._touched.values()))).touched + self._window < time:
            self._drop(oldest)
        while self._chats:
            oldest = next(iter(self._chats.values()))
            if oldest.started + self._max_age >= time and len(self._chats) < self._most:
                break
            self._drop(oldest)

    def _drop(self, chat: _Chat) -> None:
        del self._chats[chat.first], self._touched[chat.first]
        self._unindex(chat)
        for turn_id in chat.turns:
            del self._turns[turn_id]
        for trace_id in chat.traces:
            del self._traces[trace_id]
        for response in chat.responses:
            if self._responses.get(response) is chat:
                del self._responses[response]


def _first(chat: _Chat) -> int:
    return chat.first


_BATCH = 256
"""The most turns in one append, and the most records that are replayed before other tasks may run."""


@dataclass(eq=False, repr=False)
class LinkStage:
    """Opens the folds of the unlinked log's partitions. All turns that started with the same words are in one
    partition.

    `new_linker` creates the empty state of a partition.
    """

    turns: Log
    new_linker: Callable[[], ConversationLinker]
    _: KW_ONLY
    on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None

    @asynccontextmanager
    async def open_fold(self, partition: int, _committed: Committed | None) -> "AsyncGenerator[LinkFold]":
        """Open the fold of a partition; its state comes by replay."""
        del partition
        yield LinkFold(self.turns, self.new_linker(), self.on_bad_record)


@dataclass(eq=False)
class LinkFold:
    """The fold of one partition of the unlinked log. Its time is that of the records."""

    turns: Log
    linker: ConversationLinker
    on_bad_record: Callable[[StoredRecord, BadInput], None]
    due_at = None
    metadata = ""
    finishes_delivery = True

    @property
    def low_watermark(self) -> int | None:
        """The first turn of the oldest conversation that may continue."""
        return self.linker.low_watermark

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the conversations."""
        for number, _ in enumerate(self._conversations(records, _ignore_bad)):
            if number % _BATCH == 0:
                await asyncio.sleep(0)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Append turns to the turns log, each with its conversation; they are durable on return. Waits for that log."""
        linked: list[Record] = []
        for turn, conversation_id in self._conversations(records, self.on_bad_record):
            linked.append(turn_record(replace(turn, conversation_id=conversation_id)))
            if len(linked) >= _BATCH:
                await append_until_durable(self.turns, linked)
                linked = []
        if linked:
            await append_until_durable(self.turns, linked)

    def _conversations(
        self, records: Sequence[StoredRecord], on_bad: Callable[[StoredRecord, BadInput], None]
    ) -> Iterator[tuple[Turn, str]]:
        for record in records:
            if record.is_tick:
                continue
            try:
                turn = turn_from_json(record.value)
            except BadInput as error:
                on_bad(record, error)
                continue
            yield turn, self.linker.conversation_of(turn, record.offset, record.timestamp)


def _ignore_bad(_record: StoredRecord, _error: BadInput) -> None:
    """Ignore bad records: they were reported when they came."""
