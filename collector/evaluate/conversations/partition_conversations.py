"""The conversations of a partition as its monitors see them: windows, snapshots, and their number. No clock, no I/O.

The number counts all conversations, sampled or not, since the weights of the judged ones should add up to it. For a
conversation that is not judged, only the time of its last turn is stored. It counts once each time it becomes idle, as
a judged conversation is evaluated again when late turns reopen it. Other limits than idleness are ignored: they are
rare, and the number is needed only to a few percent.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.conversations.snapshot import ConversationSnapshot, outline_snapshot, parse_snapshot
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.logs.log import StoredRecord
from collector.records.json import readable

MAX_CONVERSATIONS = 200_000
"""The most open conversations that are counted in a partition; beyond that the oldest count as idle at once."""


class Population:
    """The conversations that a monitor sees in one partition; `idle` is the gap (s) after which a conversation is
    over.
    """

    def __init__(self, idle: float, *, most: int = MAX_CONVERSATIONS) -> None:
        self._idle = idle
        self._most = most
        self._last_times: dict[str, float] = {}  # in the order of their newest turn
        self._beyond = 0
        self._not_before = 0.0
        """No conversation becomes idle before this time; turns only defer it."""

    def __len__(self) -> int:
        return len(self._last_times)

    def reconfigure(self, idle: float) -> None:
        """Use this gap (s) from now on."""
        self._idle = idle
        self._not_before = 0.0

    def observe(self, conversation: str, time: float) -> None:
        """Note a turn of a conversation that came at `time` (s), which never falls."""
        self._last_times.pop(conversation, None)
        self._last_times[conversation] = time
        if len(self._last_times) > self._most:
            del self._last_times[next(iter(self._last_times))]
            self._beyond += 1

    def take_idle(self, time: float) -> int:
        """The number of conversations that became idle since the last call."""
        if time < self._not_before and not self._beyond:
            return 0
        count, self._beyond = self._beyond, 0
        self._not_before = time + self._idle
        while self._last_times:
            oldest = next(iter(self._last_times))
            if (idle_at := self._last_times[oldest] + self._idle) > time:
                self._not_before = idle_at
                break
            del self._last_times[oldest]
            count += 1
        return count


_RETRIES = 10_000


class RetriedEvaluations:
    """The ids of the newest 10,000 evaluations that replace failed ones, by the id of the failed one."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, failed: str) -> bool:
        return failed in self._newest

    def add(self, failed: str, new: str) -> None:
        """Note that `new` replaces `failed`."""
        self._newest[failed] = new
        if len(self._newest) > _RETRIES:
            self._newest.popitem(last=False)

    def add_unknown(self, retries: Mapping[str, str]) -> None:
        """Add the retries that are not known yet."""
        for failed, new in retries.items():
            if failed not in self._newest:
                self.add(failed, new)

    def restart(self, retries: Mapping[str, str]) -> None:
        """Begin again with these retries."""
        self._newest = OrderedDict(retries)

    def made_from(self, evaluation_ids: Iterable[str]) -> Iterator[str]:
        """The evaluations that replace the given ones, and those that replace them in turn."""
        for failed in evaluation_ids:
            new = self._newest.get(failed)
            while new is not None:
                yield new
                new = self._newest.get(new)

    def to_dict(self) -> dict[str, str]:
        """A copy, oldest first."""
        return dict(self._newest)


class PartitionConversations:
    """The windows of each monitor that judges conversations. `uses_fallback(monitor)` says whether fallback judges are
    in use.
    """

    def __init__(self, uses_fallback: Callable[[str], bool]) -> None:
        self.by_monitor: dict[str, KeyedSessions] = {}
        """The windows, in the order of the plan. It stays the same dictionary."""
        self.retries = RetriedEvaluations()
        self._uses_fallback = uses_fallback
        self._populations: dict[str, Population] = {}
        self.released: list[ReplayPoint] = []  # of monitors that a later plan does not have
        self._snapshot_validity: dict[int, bool] = {}

    def watch(self, settings_by_monitor: Mapping[str, SessionWindowSettings]) -> None:
        """Watch these monitors from the next record on. Open windows stay, except those of monitors that are left
        out.
        """
        for name in sorted(self.by_monitor.keys() - settings_by_monitor.keys()):
            self.released += self.by_monitor.pop(name).abandon()
            del self._populations[name]
        before = dict(self.by_monitor)
        self.by_monitor.clear()
        for name, settings in settings_by_monitor.items():
            if name in before:
                self.by_monitor[name] = before[name]
                before[name].reconfigure(settings)
                self._populations[name].reconfigure(settings.idle_gap)
            else:
                self.by_monitor[name] = self._sessions(name, settings)
                self._populations[name] = Population(settings.idle_gap)

    def restart(self, settings_by_monitor: Mapping[str, SessionWindowSettings], retries: Mapping[str, str]) -> None:
        """Begin again without windows."""
        self.by_monitor.clear()
        self.by_monitor.update((name, self._sessions(name, session)) for name, session in settings_by_monitor.items())
        self.retries.restart(retries)

    def _sessions(self, monitor: str, settings: SessionWindowSettings) -> KeyedSessions:
        return KeyedSessions(settings, fallback=partial(self._uses_fallback, monitor))

    def take_released(self) -> Sequence[ReplayPoint]:
        """The replay points that conversations have stopped needing since the last call."""
        released: Sequence[ReplayPoint] = ()
        if self.released:
            released, self.released = self.released, []
        for sessions in self.by_monitor.values():
            if sessions.has_released:
                released = [*released, *sessions.take_released()]
        return released

    def observe(self, monitor: str, key: str, time: float) -> None:
        """Note a turn of a conversation that a monitor watches, one of `by_monitor`."""
        self._populations[monitor].observe(key, time)

    def observe_by_all(self, key: str, time: float) -> None:
        """Note a turn that all monitors watch."""
        for population in self._populations.values():
            population.observe(key, time)

    def take_idle(self, time: float) -> Iterator[tuple[str, int]]:
        """The numbers of conversations that became idle since the last call, by monitor, without zeros."""
        for monitor, population in self._populations.items():
            if idle := population.take_idle(time):
                yield monitor, idle

    def decide_validity(self, validity: Mapping[int, bool]) -> None:
        """Note whether the snapshots at these offsets are valid."""
        self._snapshot_validity.update(validity)

    def validate_snapshots(self, records: Iterable[StoredRecord]) -> dict[int, bool]:
        """Whether each of the next records, all snapshots, is valid, by offset: its conversation has its windows,
        and is unchanged.

        Leaves out records whose validity was decided before with the same result.
        """
        validity: dict[int, bool] = {}
        for record in records:
            if (snapshot := readable(outline_snapshot, record.value)) is None:
                continue  # reported when it is applied
            sessions = self.by_monitor.get(snapshot.monitor)
            named = snapshot.conversation_id, snapshot.first, snapshot.since
            windows = () if sessions is None else sessions.unchanged(*named)
            validity[record.offset] = bool(windows) and snapshot.equals(windows)
        return {at: valid for at, valid in validity.items() if valid != self._snapshot_validity.get(at, False)}

    def apply_snapshot(self, record: StoredRecord, replay_point: ReplayPoint) -> None:
        """Apply a snapshot as it was decided.

        Raises:
            BadInput: it is not a snapshot that this version can read.
        """
        valid = self._snapshot_validity.pop(record.offset, False)
        outline = outline_snapshot(record.value)
        sessions = self.by_monitor.get(outline.monitor)
        if sessions is None:
            return
        if not valid:
            sessions.discard(outline.conversation_id)
        elif sessions.unchanged(outline.conversation_id, outline.first, outline.since):
            sessions.confirm_snapshot(outline.conversation_id, outline.last_ignored_at, replay_point, outline.retries)
            self.retries.add_unknown(outline.retries)
        else:  # the replay began after the conversation's first record
            self.restore(parse_snapshot(record.value), replay_point)

    def restore(self, snapshot: ConversationSnapshot, replay_point: ReplayPoint) -> None:
        """Replace a conversation by its snapshot. The snapshot has its retries, because a replay may begin after their
        requests.
        """
        sessions = self.by_monitor.get(snapshot.monitor)
        if sessions is not None:
            sessions.restore(snapshot.conversation_id, snapshot.windows, replay_point, snapshot.retries)
            self.retries.add_unknown(snapshot.retries)
