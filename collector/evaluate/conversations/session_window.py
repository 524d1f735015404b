"""Session windows. A window collects the turns of a conversation; whenever the window closes, they are evaluated.

A late turn opens a closed window again. Each closing is a *revision*, and supersedes the earlier revisions. A window
that closes at a limit is *purged*: its texts are released, and its turn ids stay to recognize duplicates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collector.evaluate.conversations.packed_turn import NO_HASHES, IncomingTurn, PackedTurn
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.records.attributes import text_at
from collector.records.recorded_turn import TurnFields
from collector.records.turns import Place
from evaluators.identity import turns_digest

NO_RETRIES: Mapping[str, str] = {}
TURN_BYTES = 400
"""The bytes of memory that a turn takes besides its packed text: ids, numbers, a dictionary entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindowSettings:
    """When session windows close; times in seconds.

    A window closes after `idle_gap` without a turn, and is removed after 2 x `allowed_lateness` more. At `max_age`,
    `max_turns` or `max_bytes` it is closed and purged.
    """

    idle_gap: float = 900.0
    allowed_lateness: float = 600.0
    max_age: float = 86_400.0
    max_turns: int = 200
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class EndRule:
    """How a conversation's last turn is recognized: by the value of an attribute, or by the name of a tool or event."""

    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    tools: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()

    def is_met_by(self, turn: TurnFields) -> bool:
        """Whether the turn is the last of its conversation."""
        if self.tools and any(call.name in self.tools for call in turn.tools_called):
            return True
        if self.events and not self.events.isdisjoint(turn.events):
            return True
        return any(text_at(turn, f"attributes.{name}") in values for name, values in self.attributes.items())


class ClosedRevision(NamedTuple):
    """One closing of a window: a digest of the turns' ids, and the factors with which it was sampled.

    `rate` is the share of the sampling rate that budgets left, `boost` the factor of the stratum:
    `Monitor.probability` takes both. `fallback` says whether the fallback judge was in use.
    """

    digest: str
    rate: float
    boost: float
    fallback: bool


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A closed window, with its turns in the order of the conversation.

    `supersedes` are all earlier revisions with some of these turns, judged or not. A replay from `replay_point`
    rebuilds the conversation. `missing_messages` is the number of user messages that histories contain but no turn
    has.
    """

    conversation_id: str
    turns: tuple[tuple[str, PackedTurn], ...]
    closed_by: str
    revision: int
    closed_revision: ClosedRevision
    supersedes: tuple[ClosedRevision, ...]
    stratum: str
    upstream: float | None
    missing_messages: int
    replay_point: ReplayPoint


@dataclass(slots=True, eq=False)
class SessionWindow:
    """A session window. It is open, or waits closed for late turns, or is purged of its texts.

    Times are seconds since the epoch. `touched_at` is when the last turn came, never before that turn happened;
    `last_ignored_at` is when the last duplicate turn came. A duplicate defers the removal: a replay that begins
    after the turn makes a window of the duplicate, which must not outlast this one. `missing_user_hashes` are hashes of
    user messages seen in histories but not yet received as turns.
    """

    conversation_id: str
    first_at: float
    last_at: float
    touched_at: float
    last_ignored_at: float = 0.0
    turns: dict[str, PackedTurn | None] = field(default_factory=dict[str, "PackedTurn | None"])
    """By id, in the order of arrival: the order counts for turns that have equal places."""
    size: int = 0
    newest: tuple[float, str] = (0.0, "")
    ends_conversation: bool = False
    missing_user_hashes: frozenset[int] = NO_HASHES
    oldest: tuple[float, str] = (0.0, "")
    hashes_before_first: frozenset[int] = NO_HASHES
    rate: float = 0.0
    boost: float = 0.0
    stratum: str = "all"
    upstream: float | None = None
    closed: bool = False
    purged: bool = False
    removed: bool = False
    revision: int = 0
    closed_revisions: tuple[ClosedRevision, ...] = ()
    timer_at: float = 0.0

    def add(self, incoming: IncomingTurn) -> None:
        """Add a turn that the window does not have yet."""
        if not self.turns:
            self.first_at = self.last_at = incoming.packed.happened_at
            self.newest = self.oldest = incoming.packed.started_at, incoming.turn_id
            self.ends_conversation, self.hashes_before_first, self.upstream = (
                incoming.ends_conversation,
                incoming.prior_user_hashes,
                incoming.upstream,
            )
        elif incoming.upstream != self.upstream:
            self.upstream = None
        self.turns[incoming.turn_id] = incoming.packed
        self.size += len(incoming.packed.data) + TURN_BYTES
        self._update_first_and_last(incoming)
        self._raise_chance(incoming.rate, incoming.boost, incoming.stratum)
        if incoming.prior_user_hashes:
            self.missing_user_hashes |= incoming.prior_user_hashes - self._user_hashes()
        self.closed = False

    def _update_first_and_last(self, incoming: IncomingTurn) -> None:
        key, at = (incoming.packed.started_at, incoming.turn_id), incoming.packed.happened_at
        if at > self.last_at:
            self.last_at = at
        elif at < self.first_at:
            self.first_at = at
        if incoming.packed.place >= _place_of(self, self.newest):
            self.newest, self.ends_conversation = key, incoming.ends_conversation
        if incoming.packed.place < _place_of(self, self.oldest):
            self.oldest, self.hashes_before_first = key, incoming.prior_user_hashes

    def _raise_chance(self, rate: float, boost: float, stratum: str) -> None:
        """Make the window's `rate` times `boost` the largest such product of any of its turns."""
        # The largest rate of one turn times the largest boost of another would be wrong: no turn was drawn with that
        # chance, so 1 / chance would be too small a weight, and means would be biased.
        if boost == self.boost == 1.0 and rate <= self.rate and stratum == self.stratum:
            return  # the case of nearly all turns
        chance = max(self.rate * self.boost, rate * boost)
        self.boost, self.stratum = max((self.boost, self.stratum), (boost, stratum))
        self.rate = chance / self.boost

    def merge(self, other: "SessionWindow") -> None:
        """Merge another window into this one, because a turn connects them."""
        if _place_of(other, other.newest) > _place_of(self, self.newest):
            self.newest, self.ends_conversation = other.newest, other.ends_conversation
        if _place_of(other, other.oldest) < _place_of(self, self.oldest):
            self.oldest, self.hashes_before_first = other.oldest, other.hashes_before_first
        self.first_at, self.last_at = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        self.turns |= other.turns
        self.size += other.size
        self.missing_user_hashes |= other.missing_user_hashes
        self._raise_chance(other.rate, other.boost, other.stratum)
        if other.upstream != self.upstream:
            self.upstream = None
        self.revision = max(self.revision, other.revision)
        self.closed_revisions += other.closed_revisions

    def close(self, closed_by: str, *, replay_point: ReplayPoint, fallback: bool) -> WindowResult:
        """Close the window. Its next closing will be another revision, which supersedes this one."""
        turns = sorted(
            ((turn_id, packed) for turn_id, packed in self.turns.items() if packed is not None),
            key=lambda item: item[1].place,
        )
        closed = ClosedRevision(turns_digest(self.turns), self.rate, self.boost, fallback)
        earlier = tuple(revision for revision in self.closed_revisions if revision.digest != closed.digest)
        self.closed_revisions = (*earlier, closed)
        self.closed = True
        self.revision += 1
        return WindowResult(
            conversation_id=self.conversation_id, turns=tuple(turns), replay_point=replay_point, closed_by=closed_by,
            revision=self.revision, closed_revision=closed, supersedes=earlier,
            stratum=self.stratum, upstream=self.upstream,
            missing_messages=len(self.missing_user_hashes - self._user_hashes() - self.hashes_before_first),
        )  # fmt: skip

    def purge(self) -> None:
        """Release the texts; the turns' ids stay, so that duplicates are recognized."""
        self.turns = dict.fromkeys(self.turns)
        self.size = TURN_BYTES * len(self.turns) // 2
        self.missing_user_hashes = self.hashes_before_first = NO_HASHES
        self.purged = True

    def _user_hashes(self) -> set[int]:
        return {
            packed.user_hash for packed in self.turns.values() if packed is not None and packed.user_hash is not None
        }


def _place_of(window: SessionWindow, key: tuple[float, str]) -> Place:
    """The place of a window's `newest` or `oldest` turn; only a purged window is without it."""
    packed = window.turns.get(key[1])
    return packed.place if packed is not None else (key[0], key[0])


@dataclass(slots=True, eq=False)
class ConversationWindows:
    """All windows of one conversation id, from the first that opens until the last is removed.

    `replay_point` belongs to the first record of the first window. A replay that begins there or earlier rebuilds every
    window. In a replay that begins later, the windows are unreliable until all of them are removed, or a snapshot is
    restored. `last_change` is the offset of the last record that changed a window. `retries` maps the id of a failed
    evaluation of the conversation to the id of its repetition: a later revision supersedes the repetition, too.
    """

    replay_point: ReplayPoint
    windows: list[SessionWindow]
    last_change: int
    retries: Mapping[str, str] = field(default_factory=lambda: NO_RETRIES)
    snapshot_pending: bool = False
    """Whether a snapshot was written to the log and is not yet read from it."""
    too_large: bool = False
    """Whether a snapshot was too large for the log."""
