"""Who is talking, and in which conversation: which attributes say so, and which of them is believed first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from collector.dialects.decode import as_dict, json_value
from collector.dialects.reading import is_masked
from evaluators.cases import Json

CONVERSATION_KEYS: tuple[str, ...] = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "gen_ai.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.chat_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.conversation_id",
    "ai.telemetry.metadata.*",
    "ai.settings.context.*",
    "gcp.vertex.agent.session_id",
    "spring.ai.chat.client.conversation.id",
    "wandb.thread_id",
    "session_id",
    "group_id",
    "thread_id",
    "conversation_id",
    "conversation.id",
    "langfuse.trace.metadata.*",
    "langfuse.observation.metadata.*",
    "metadata.*",
    "metadata{}",
    "langfuse.trace.metadata{}",
    "langfuse.observation.metadata{}",
    "metadata.requester_metadata{}",
    "braintrust.metadata{}",
)
"""Where a conversation id may stand, the first hit wins.

`name.*` is any attribute under that name whose last part is an id of a session, thread, conversation or chat;
`name{}` is JSON under that name with such a key in it. Names of projects (`langsmith.trace.session_name`) and of single
invocations (`…invocation_id`, `gen_ai.agent.call.id`) are not conversations.
"""

USER_KEYS: tuple[str, ...] = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    "gen_ai.user.id",
    "traceloop.association.properties.user_id",
    "langsmith.metadata.user_id",
    "ai.telemetry.metadata.*",
    "ai.settings.context.*",
    "llm.user",
    "litellm.metadata.user_api_key_end_user_id",
    "metadata.user_api_key_end_user_id",
    "user_id",
    "langfuse.trace.metadata.*",
    "langfuse.observation.metadata.*",
    "metadata.*",
    "metadata{}",
    "langfuse.trace.metadata{}",
    "langfuse.observation.metadata{}",
    "metadata.requester_metadata{}",
    "braintrust.metadata{}",
)
"""Where a user's id may stand, the first hit wins."""

_CONVERSATION = re.compile(r"(?:session|thread|conversation|chat)_?id", re.IGNORECASE)
_USER = re.compile(r"user_?id", re.IGNORECASE)
_LONGEST = 1000
"""Characters of an id: many are kept in memory, and go into one record."""
_NOBODY = frozenset({"none", "null", "undefined"})
_MEMORY = 20_000


class _Lookup:
    """Ranks attribute names by how far they are to be believed."""

    def __init__(self, keys: Sequence[str], wanted: re.Pattern[str], ignored: Collection[str] = ()) -> None:
        self._wanted = wanted
        self._ignored = frozenset(ignored)
        ranked = list(enumerate(keys))[::-1]  # of two that are named twice the first counts
        self._exact = {key: rank for rank, key in ranked if key[-1:] != "*" and key[-2:] != "{}"}
        self._json = {key[:-2]: rank for rank, key in ranked if key.endswith("{}")}
        self._under = [(key[:-1], rank) for rank, key in enumerate(keys) if key.endswith(".*")]

    def rank(self, key: str) -> int | None:
        if key in self._ignored:
            return None
        rank = self._exact.get(key, self._json.get(key))
        if rank is not None:
            return rank
        last = key.rpartition(".")[2]
        if self._wanted.fullmatch(last):
            return next((rank for name, rank in self._under if key[: -len(last)] == name), None)
        return None

    def first(self, hits: list[tuple[int, str]], attributes: Mapping[str, Json]) -> str | None:
        """The value of the best hit that has one."""
        for _, key in sorted(hits) if len(hits) > 1 else hits:
            value = attributes[key]
            found = self._inside(value) if key in self._json else identifier(value)
            if found:
                return found
        return None

    def _inside(self, value: Json) -> str | None:
        if not isinstance(value, (str, dict)) or (isinstance(value, str) and not self._wanted.search(value)):
            return None
        for key, each in as_dict(json_value(value)).items():
            if self._wanted.fullmatch(key):
                found = identifier(each)
                if found:
                    return found
        return None


def identifier(value: Json) -> str | None:
    """The value as an id; None if it is none: masked, empty, or longer than any id has reason to be."""
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 2 and text[0] == text[-1] == '"':
            text = text[1:-1]  # some dialects write texts as JSON
        if text and len(text) <= _LONGEST and text.lower() not in _NOBODY and not is_masked(text):
            return text
        return None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


Who = tuple[str | None, str | None]
"""A conversation's id and a user's, None where nothing names them."""


class Identity:
    """Looks up conversation and user in the attributes of one span or resource.

    Names of the application's own, written like the usual ones, are tried before them; what is ignored names nobody.
    """

    def __init__(self, conversation: Sequence[str] = (), user: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
        self._conversation = _Lookup((*conversation, *CONVERSATION_KEYS), _CONVERSATION, ignore)
        self._user = _Lookup((*user, *USER_KEYS), _USER, ignore)
        self._known: dict[str, tuple[int | None, int | None] | None] = {}

    def _ranks(self, key: str) -> tuple[int | None, int | None] | None:
        """How far a name is believed for either; names seen before are found by one dictionary access."""
        ranks = (self._conversation.rank(key), self._user.rank(key))
        found = None if ranks == (None, None) else ranks
        if len(self._known) < _MEMORY:
            self._known[key] = found
        return found

    def concerns(self, keys: Iterable[str]) -> bool:
        """Whether one of these attribute names may say who is talking, or where."""
        known = self._known
        return any((known[key] if key in known else self._ranks(key)) is not None for key in keys)

    def who(self, attributes: Mapping[str, Json]) -> Who:
        """Who is talking, and in which conversation, as far as these attributes tell."""
        known = self._known
        conversations: list[tuple[int, str]] = []
        users: list[tuple[int, str]] = []
        for key in attributes:
            ranks = known[key] if key in known else self._ranks(key)
            if ranks is not None:
                if ranks[0] is not None:
                    conversations.append((ranks[0], key))
                if ranks[1] is not None:
                    users.append((ranks[1], key))
        conversation = self._conversation.first(conversations, attributes) if conversations else None
        return conversation, self._user.first(users, attributes) if users else None
