"""Conversation and user ids: the attributes that have them, in order of preference."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from collector.dialects.attributes import LONGEST_NAME, MOST_NAMES, is_masked
from collector.dialects.decode import as_dict, decode_json
from collector.link.conversation_linker import RESPONSE
from evaluators.cases import Json

_METADATA = (
    "langfuse.trace.metadata.*", "langfuse.observation.metadata.*", "metadata.*", "mastra.metadata.*", "metadata{}",
    "langfuse.trace.metadata{}", "langfuse.observation.metadata{}", "metadata.requester_metadata{}",
    "braintrust.metadata{}",
)  # fmt: skip

CONVERSATION_KEYS: tuple[str, ...] = (
    "gen_ai.conversation.id", "session.id", "langfuse.session.id", "gen_ai.session.id",
    "traceloop.association.properties.session_id", "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id", "traceloop.association.properties.chat_id",
    "langsmith.metadata.session_id", "langsmith.metadata.thread_id", "langsmith.metadata.conversation_id",
    "ai.telemetry.metadata.*", "ai.settings.context.*", "gcp.vertex.agent.session_id",
    "spring.ai.chat.client.conversation.id", "wandb.thread_id", "session_id", "group_id", "thread_id",
    "conversation_id", "conversation.id", *_METADATA,
)  # fmt: skip
"""Attributes that may have a conversation id; the first match wins.

`name.*` is any attribute under that name whose last part is an id of a session, thread, conversation or chat;
`name{}` is JSON under that name with such a key in it. Names of projects (`langsmith.trace.session_name`) and of single
invocations (`…invocation_id`, `gen_ai.agent.call.id`) are not conversations.
"""

USER_KEYS: tuple[str, ...] = (
    "user.id", "enduser.id", "langfuse.user.id", "gen_ai.user.id", "traceloop.association.properties.user_id",
    "langsmith.metadata.user_id", "ai.telemetry.metadata.*", "ai.settings.context.*", "llm.user",
    "litellm.metadata.user_api_key_end_user_id", "metadata.user_api_key_end_user_id", "user_id", *_METADATA,
)  # fmt: skip
"""Attributes that may have a user's id; the first match wins."""

_CONVERSATION = re.compile(r"(?:langfuse_)?(?:session|thread|conversation|chat)_?id", re.IGNORECASE)
_USER = re.compile(r"(?:langfuse_)?user_?id", re.IGNORECASE)
_MAX_LENGTH = 1000
"""The most characters of an id: many are in memory at once, and several go into one record."""
_NO_IDENTITY = frozenset({"none", "null", "undefined", "unknown", "n/a"})


class _AttributeRanking:
    """Ranks attribute names in order of preference."""

    def __init__(self, keys: Sequence[str], pattern: re.Pattern[str], ignored: Collection[str] = ()) -> None:
        self._pattern = pattern
        self._ignored = frozenset(ignored)
        ranked = list(enumerate(keys))[::-1]  # reversed, so that the first of two equal names wins
        self._exact = {key: rank for rank, key in ranked if key[-1:] != "*" and key[-2:] != "{}"}
        self._json = {key[:-2]: rank for rank, key in ranked if key.endswith("{}")}
        self._ranks_by_prefix = [(key[:-1], rank) for rank, key in enumerate(keys) if key.endswith(".*")]

    def rank(self, key: str) -> int | None:
        if key in self._ignored:
            return None
        rank = self._exact.get(key, self._json.get(key))
        if rank is not None:
            return rank
        last = key.rpartition(".")[2]
        if self._pattern.fullmatch(last):
            return next((rank for name, rank in self._ranks_by_prefix if key[: -len(last)] == name), None)
        return None

    def find_first(self, hits: list[tuple[int, str]], attributes: Mapping[str, Json]) -> str | None:
        """Find the value of the best match that has a valid one."""
        for _, key in sorted(hits) if len(hits) > 1 else hits:
            value = attributes[key]
            identifier = self._find_in_json(value) if key in self._json else parse_identifier(value)
            if identifier:
                return identifier
        return None

    def _find_in_json(self, value: Json) -> str | None:
        if not isinstance(value, (str, dict)) or (isinstance(value, str) and not self._pattern.search(value)):
            return None
        members = as_dict(decode_json(value)).items()
        identifiers = (parse_identifier(each) for key, each in members if self._pattern.fullmatch(key))
        return next(filter(None, identifiers), None)


def parse_identifier(value: Json) -> str | None:
    """Parse an id; None if the value is not a valid one: masked, empty, or too long."""
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 2 and text[0] == text[-1] == '"':
            text = text[1:-1]  # some libraries write texts as JSON
        if text and len(text) <= _MAX_LENGTH and text.lower() not in _NO_IDENTITY and not is_masked(text):
            return text
        return None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


ConversationAndUser = tuple[str | None, str | None]
"""A conversation's id and a user's, each None if it is unknown."""


_RUN_SCOPES = ("pydantic-ai",)
_UUID_LENGTH, _UUID_DASHES = 36, 4


def may_be_made_up(conversation: str, scope: str) -> bool:
    """Whether a library may have made up an id for one run: some write a new UUID where the application gives none.

    Others write the id of the previous response, a pointer that differs in each turn. Such ids group nothing, so any
    other id in the trace is preferred.
    """
    return conversation.startswith(RESPONSE) or (
        scope.startswith(_RUN_SCOPES) and len(conversation) == _UUID_LENGTH and conversation.count("-") == _UUID_DASHES
    )


class IdentityLookup:
    """Finds conversation and user in the attributes of one span or resource.

    An application's own attribute names, in the same notation, are tried before the usual ones; ignored names never.
    `configured` finds only by the application's own names, which win wherever in a trace they are; None without any.
    `set_aside` finds only the ids of `made_up` attributes, for traces without any other; None without any.
    """

    def __init__(
        self,
        conversation: Sequence[str] = (),
        user: Sequence[str] = (),
        ignore: Sequence[str] = (),
        *,
        made_up: Sequence[str] = (),
        usual: bool = True,
    ) -> None:
        self.set_aside = IdentityLookup(made_up, usual=False) if made_up else None
        ignore = (*ignore, *made_up)
        usual_conversation, usual_user = (CONVERSATION_KEYS, USER_KEYS) if usual else ((), ())
        self._conversation = _AttributeRanking((*conversation, *usual_conversation), _CONVERSATION, ignore)
        self._user = _AttributeRanking((*user, *usual_user), _USER, ignore)
        has_own = usual and bool(conversation or user)
        self.configured = IdentityLookup(conversation, user, ignore, usual=False) if has_own else None
        self._known: dict[str, tuple[int | None, int | None] | None] = {}

    def _rank(self, key: str) -> tuple[int | None, int | None] | None:
        """The ranks of a name for conversation and user; the cache makes this one dictionary access per name."""
        ranks = (self._conversation.rank(key), self._user.rank(key))
        known_ranks = None if ranks == (None, None) else ranks
        if len(self._known) < MOST_NAMES and len(key) <= LONGEST_NAME:
            self._known[key] = known_ranks
        return known_ranks

    def concerns(self, keys: Iterable[str]) -> bool:
        """Whether one of these attribute names may have a conversation's or a user's id."""
        known = self._known
        for key in keys:
            if (known[key] if key in known else self._rank(key)) is not None:
                return True
        return self.set_aside is not None and self.set_aside.concerns(keys)

    def find(self, attributes: Mapping[str, Json]) -> ConversationAndUser:
        """Find the conversation's and the user's id in these attributes."""
        known = self._known
        conversations: list[tuple[int, str]] = []
        users: list[tuple[int, str]] = []
        for key in attributes:
            try:
                ranks = known[key]
            except KeyError:
                ranks = self._rank(key)
            if ranks is not None:
                if ranks[0] is not None:
                    conversations.append((ranks[0], key))
                if ranks[1] is not None:
                    users.append((ranks[1], key))
        conversation = self._conversation.find_first(conversations, attributes) if conversations else None
        return conversation, self._user.find_first(users, attributes) if users else None

    def list_conversations(self, attributes: Mapping[str, Json]) -> list[tuple[str, str]]:
        """The attributes with a conversation's id, and the ids, the preferred one first."""
        ranked: list[tuple[int, str]] = []
        for key in attributes:
            ranks = self._known[key] if key in self._known else self._rank(key)
            if ranks is not None and ranks[0] is not None:
                ranked.append((ranks[0], key))
        listed: list[tuple[str, str]] = []
        for rank, key in sorted(ranked):
            if (value := self._conversation.find_first([(rank, key)], attributes)) is not None:
                listed.append((key, value))
        return listed
