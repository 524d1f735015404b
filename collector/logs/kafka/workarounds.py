"""Workarounds for kafka-python 3.0.12, one function for each defect.

Each says what the library does, and when the function can go. They touch private attributes, so the version is pinned,
and `replace_decoding` refuses any other at the start.
"""

import math
import socket
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from kafka import structs
from kafka.consumer import fetcher as fetching, subscription_state
from kafka.coordinator import heartbeat as heartbeats
from kafka.errors import FencedInstanceIdError
from kafka.net.compat import KafkaNetClient

from collector.logs.consumer_runner import since_boot
from collector.logs.log import LogError

_Fetcher: Any = fetching.Fetcher
_EARLIEST: int = vars(subscription_state)["OffsetResetStrategy"].EARLIEST
_REBALANCING: Any = vars(structs)["MemberState"].REBALANCING
_Heartbeat: Any = heartbeats.Heartbeat
FetchedRecords: Any = _Fetcher.PartitionRecords
"""The decoder of one partition of one fetch. The library is untyped."""


def client_without_topic_creation(**options: Any) -> KafkaNetClient:
    """A client that never makes the broker create a topic.

    The option `allow_auto_create_topics` reaches nothing in 3.0.12. Can go when it takes effect.
    """
    client: Any = KafkaNetClient(**options)
    client.cluster.config["allow_auto_create_topics"] = False
    read_last_answers(client._manager)  # noqa: SLF001 - see the module
    close_failed_connections(client._manager)  # noqa: SLF001
    keep_refreshing_metadata(client.cluster)
    return client


def keep_refreshing_metadata(cluster: Any) -> None:
    """Refresh what is known of topics and leaders for as long as the client lives.

    The library's coroutine for that ends for good if it waits for a refresh that another has begun and that fails, as
    when a broker dies. From then on the client asks by an old epoch of the leader: brokers refuse that, a consumer's
    partitions wait for a validation that never comes, and `poll` returns nothing. Can go when the coroutine survives
    such an error.
    """
    refresh = cluster._refresh_loop  # noqa: SLF001 - see the module

    async def refresh_until_closed() -> None:
        while not cluster.closed:
            try:
                await refresh()
            except Exception:  # noqa: BLE001 - whatever it is, the next refresh may succeed
                await cluster._manager._net.sleep(0.1)  # noqa: SLF001

    cluster._refresh_loop = refresh_until_closed  # noqa: SLF001


def close_failed_connections(manager: Any) -> None:
    """Close the socket of each connection that fails.

    The library leaves it to the garbage collector: while a broker is down, one more file is open after each second.
    Can go when the library closes what it could not connect, log in to, or agree on TLS with.
    """
    build = manager._build_transport  # noqa: SLF001 - see the module

    async def build_transport(*arguments: Any, **named: Any) -> Any:
        try:
            return await build(*arguments, **named)
        except Exception as error:
            _close_sockets(error)
            raise

    manager._build_transport = build_transport  # noqa: SLF001


def _close_sockets(failed: BaseException) -> None:
    """Close the sockets that stand in variables of the frames of an error, and of the errors that led to it."""
    errors, seen = [failed], set[int]()
    while errors:
        error = errors.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        errors += [error.__context__] if error.__context__ else []
        for frame, _ in walk_tb(error.__traceback__):
            errors += frame.f_locals.get("exceptions", ())  # of the server's other addresses
            for value in frame.f_locals.values():
                connection = getattr(value, "_sock", value)  # of a transport
                if isinstance(connection, socket.socket):
                    connection.close()


def read_last_answers(manager: Any) -> None:
    """Let connections of this manager read the answers that a broker sent before it closed the connection.

    The library drops the bytes that it has read if the end of the connection comes with them: a refused login then
    looks like a broker that is down. Can go when the library takes in the bytes before the end.
    """
    build = manager._build_transport  # noqa: SLF001 - see the module

    async def build_transport(*arguments: Any, **named: Any) -> Any:
        transport = await build(*arguments, **named)
        receive = transport._sock_recv  # noqa: SLF001

        def receive_all() -> tuple[bytes, Exception | None]:
            data, error = receive()
            if data and error is not None:
                transport._sock_recv = lambda: (b"", error)  # noqa: SLF001 - the next read, at once, ends it
                return data, None
            return data, error

        transport._sock_recv = receive_all  # noqa: SLF001
        return transport

    manager._build_transport = build_transport  # noqa: SLF001


def replace_decoding(consumer: Any, decoder: Callable[..., Any]) -> None:
    """Let `decoder` make the records of what this consumer fetches, instead of `FetchedRecords`.

    An error of decoding is raised once by `poll`, and the next `poll` never returns. Can go when the library skips what
    it cannot decode, and limits decompression.

    Raises:
        LogError: this is another release of kafka-python.
    """
    fetcher: Any = getattr(consumer, "_fetcher", None)
    if type(fetcher) is not _Fetcher or not hasattr(_Fetcher, "PartitionRecords"):
        raise LogError("this release of kafka-python is built differently; install kafka-python 3.0.12")
    fetcher.PartitionRecords = decoder


def report_out_of_range(consumer: Any, report: Callable[[structs.TopicPartition, int], None]) -> None:
    """Call `report` with an offset that was to be read and that no broker has; continue at the oldest record.

    The library logs that at a low level, and continues by `auto_offset_reset`, which is for new groups: `latest`
    would skip what is left as well. Can go when the library has a listener for it.
    """
    subscription = consumer._subscription  # noqa: SLF001 - see the module
    reset = subscription.request_offset_reset

    def request_offset_reset(where: structs.TopicPartition, strategy: int | None = None) -> None:
        if strategy is None:  # else a seek of ours
            position = subscription.position(where)
            if position is not None:
                report(where, position.offset)
            strategy = _EARLIEST
        reset(where, strategy)

    subscription.request_offset_reset = request_offset_reset


def position_after_reset(consumer: Any, where: structs.TopicPartition) -> int | None:
    """The offset at which a partition continues; None while it is not known. Does not block, as `position` does."""
    if where not in consumer._subscription.assignment:  # noqa: SLF001 - see the module
        return None
    position = consumer._subscription.position(where)  # noqa: SLF001
    return None if position is None else position.offset


def topic_id(consumer: Any, topic: str) -> str | None:
    """The id of a topic, in hex, as the last metadata had it; None if brokers do not say. Does not block.

    The library knows it and has no method for it. Can go when the consumer has one.
    """
    known = consumer._cluster.topic_id(topic)  # noqa: SLF001 - see the module
    return None if known is None else known.hex


def keep_joining(consumer: Any) -> None:
    """Complete a join that `poll` has started and not waited for.

    A leader that joins again because partitions appeared forgets, when `poll` times out in the middle, that it is
    joining: from then on it has no partitions and sends no heartbeats, and `poll` spins. Can go when a `poll` after a
    timeout resumes the join.
    """
    if consumer.group_metadata().state == _REBALANCING:
        consumer._coordinator.request_rejoin()  # noqa: SLF001 - see the module


def wait_in_poll(consumer: Any) -> None:
    """Let `poll` wait for records as long as it is told to.

    It waits no longer than until the next heartbeat is due, which a coroutine of its own sends: while one that is due
    is not answered, `poll` spins, and each round leaves what it waited with in the library until the broker answers
    (14,500 rounds in 20 s of a broker that stands still). Can go when `poll` does not look at heartbeats.
    """
    consumer._coordinator.time_to_next_poll = lambda: math.inf  # noqa: SLF001 - see the module


def poll_in_one_thread(consumer: Any) -> None:
    """Let the thread that polls, the caller's, do all that this consumer does with its connections.

    The library has a thread for that, which calls the listener: a partition could be revoked while the thread that
    polls reports it as assigned, and two processes would own it. With one thread heartbeats go out during polls alone.
    Can go when the library calls the listener in the thread that polls.
    """
    network, coordinator = consumer._net, consumer._coordinator  # noqa: SLF001 - see the module
    network.stop()
    mine, wake, find = threading.get_ident(), network.wakeup, coordinator.ensure_coordinator_ready

    def wakeup() -> None:
        if threading.get_ident() != mine:  # else it does not wait
            wake()

    def ensure_coordinator_ready(timeout_ms: float | None = None) -> bool:
        return not coordinator.coordinator_unknown() or find(timeout_ms)

    network.wakeup = wakeup
    coordinator.ensure_coordinator_ready = ensure_coordinator_ready


def wait_in_thread(consumer: Any, seconds: float) -> None:
    """Work on the connections of a consumer in this thread until something has happened, or for so long."""
    consumer._net.poll(timeout_ms=seconds * 1000)  # noqa: SLF001 - see the module


def waits_for_group(consumer: Any) -> bool:
    """Whether `poll` can only wait: for the group's coordinator, or for a join.

    Each poll that times out there leaves what it waited with in the library, until the broker answers: a poll that has
    nothing to hurry for is a long one. Can go when `wait_for` takes its callbacks back.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - see the module
    return bool(coordinator.coordinator_unknown() or coordinator.need_rejoin())


def last_answer(consumer: Any) -> float:
    """When a broker last sent something over a connection that is still there (s of the monotonic clock); 0 if none is.

    Can go when the consumer has a method for it.
    """
    connections = consumer._manager._conns.values()  # noqa: SLF001 - see the module
    return max([connection.transport.last_read for connection in connections if connection.connected], default=0.0)


def known_partitions(consumer: Any, topics: Collection[str]) -> frozenset[structs.TopicPartition] | None:
    """The partitions of topics; None while one topic's are not known. Does not block.

    A consumer joins its group before it knows its topics; as the leader it then distributes nothing, and joins again.
    If it ends in between, and has a group instance id, its successors keep that: see `group_watch`. Can go when a
    consumer waits for metadata before it joins, and has a method that does not block.
    """
    known = {topic: consumer._cluster.partitions_for_topic(topic) for topic in topics}  # noqa: SLF001 - see the module
    if not all(known.values()):
        return None
    return frozenset(structs.TopicPartition(topic, number) for topic, numbers in known.items() for number in numbers)


def hidden_topics(consumer: Any, topics: Collection[str]) -> list[str]:
    """The topics that the last metadata did not have: deleted, or this user may not see them. Does not block.

    The library logs it and fetches nothing from these topics, and no poll fails. Can go when `poll` raises it each
    time.
    """
    return [topic for topic in topics if not consumer._cluster.partitions_for_topic(topic)]  # noqa: SLF001


def rejoin(consumer: Any) -> None:
    """Let the next `poll` join the group again, with the present partitions. Can go when the consumer has
    `enforce_rebalance`.
    """
    consumer._coordinator.request_rejoin()  # noqa: SLF001 - see the module


class ReportedHeartbeat(_Heartbeat):
    """The heartbeats of a consumer; `report` is called, in kafka-python's thread, when one was answered.

    It is given the time at which that one was sent, by a clock that also counts while the machine is suspended. The
    library knows when an answer came, which says nothing: it may have waited in a socket while the process stood still.
    Can go when the consumer tells the time until which it is a member.
    """

    def __init__(self, report: Callable[[float], None], config: Mapping[str, Any]) -> None:
        super().__init__(**config)  # pyright: ignore[reportUnknownMemberType] - untyped, here and below
        self.wanted = True
        """Whether one is to be sent now."""
        self._report = report
        self._sent_at = 0.0

    def time_to_next_heartbeat(self) -> float:
        """The wait in seconds."""
        if self.wanted and not self.heartbeat_failed:
            return 0.0
        return float(super().time_to_next_heartbeat())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def sent_heartbeat(self) -> None:
        """One is being sent."""
        self.wanted = False  # before the time is read: from now on, a later answer is wanted
        self._sent_at = since_boot()
        super().sent_heartbeat()  # pyright: ignore[reportUnknownMemberType]

    def received_heartbeat(self) -> None:
        """It was answered, and this consumer is a member."""
        super().received_heartbeat()  # pyright: ignore[reportUnknownMemberType]
        self._report(self._sent_at)


def report_heartbeats(
    consumer: Any, report: Callable[[float], None], on_fenced: Callable[[], None]
) -> Callable[[], None]:
    """Call `report` for each heartbeat that is answered; returns what sends one now. See `ReportedHeartbeat`.

    `on_fenced` is called when the answer is that another process has taken the group instance id. The library only
    stops its heartbeats then, and where no rebalance comes `poll` never says so.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - see the module
    coordinator.heartbeat = heartbeat = ReportedHeartbeat(report, coordinator.config)
    send = coordinator._send_heartbeat_request  # noqa: SLF001

    async def send_heartbeat_request() -> Any:
        try:
            return await send()
        except FencedInstanceIdError:
            on_fenced()
            raise

    coordinator._send_heartbeat_request = send_heartbeat_request  # noqa: SLF001

    def send_now() -> None:
        heartbeat.wanted = True
        coordinator._heartbeat_wakeup.notify()  # noqa: SLF001

    return send_now


def give_back_parked_records(consumer: Any) -> None:
    """Let `poll` return the records that it parked when their partition was paused, once it is resumed.

    It looks for them only when it has no records of another partition, and counts an empty rest as some: a resumed
    partition then waits until the others have new records, and longer. Can go when `poll` checks the rest for content.
    """
    fetcher = consumer._fetcher  # noqa: SLF001 - see the module
    if not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001


def is_broken(producer: Any) -> bool:
    """Whether the producer can only be replaced.

    An idempotent producer fails everything after the first error that it cannot retry, and never recovers: one record
    that a broker rejects is enough. Can go when the producer takes a new epoch by itself, as the Java client does.
    """
    manager = producer._transaction_manager  # noqa: SLF001 - see the module
    return manager is not None and manager.has_fatal_error()


@contextmanager
def woken_once(producer: Any) -> Generator[None]:
    """Wake the producer's thread once, after all that is sent within.

    `send` wakes it for each batch that a record begins: it then sends one partition's records while the next
    partition's are added, and both threads want the interpreter. A wait for metadata wakes the thread in another way.
    Can go when the library takes several records at once.
    """
    sender = producer._sender  # noqa: SLF001 - see the module
    sender.wakeup = _rest  # hides the method
    try:
        yield
    finally:
        del sender.wakeup
        sender.wakeup()


def _rest() -> None: ...


def abandon(producer: Any) -> None:
    """End a producer without waiting: its requests in flight fail.

    `close` waits for all of that first. On its timeout it raises, and the producer continues in the background
    indefinitely, and may yet send what its append reported as failed. Can go when `close(timeout=0)` ends the sender.
    """
    producer._unregister_cleanup()  # noqa: SLF001 - see the module
    producer._sender.force_close()  # noqa: SLF001
    producer._closed = True  # noqa: SLF001
