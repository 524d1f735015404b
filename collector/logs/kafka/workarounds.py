"""Where kafka-python 3.0.12 does not do what it says. One function for each such place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import structs
from kafka.consumer import fetcher as fetching
from kafka.net.compat import KafkaNetClient

from collector.logs.log import LogError

_Fetcher: Any = fetching.Fetcher
_REBALANCING: Any = vars(structs)["MemberState"].REBALANCING
FetchedRecords: Any = _Fetcher.PartitionRecords
"""What decodes one partition of one fetch. The library is untyped."""


def client_without_topic_creation(**options: Any) -> KafkaNetClient:
    """A client that never makes the broker create a topic: the option of that name reaches nobody in 3.0.12."""
    client: Any = KafkaNetClient(**options)
    client.cluster.config["allow_auto_create_topics"] = False
    return client


def replace_decoding(consumer: Any, decoder: Callable[..., Any]) -> None:
    """Let `decoder` make the records of what this consumer fetches, instead of `FetchedRecords`.

    An error of decoding is raised once out of `poll`, and the next `poll` never returns.

    Raises:
        LogError: this is not the kafka-python that we know.
    """
    fetcher: Any = getattr(consumer, "_fetcher", None)
    if type(fetcher) is not _Fetcher or not hasattr(_Fetcher, "PartitionRecords"):
        raise LogError("this release of kafka-python is built differently; install kafka-python 3.0.12")
    fetcher.PartitionRecords = decoder


def skip_failed_record(consumer: Any) -> tuple[structs.TopicPartition, int] | None:
    """After an error out of `poll`: go on behind the record it is about. Returns where that was, None if nowhere.

    Without it the next `poll` would not return, if the error came from decoding after all.
    """
    failed = consumer._fetcher._next_partition_records  # noqa: SLF001 - see the module
    if not failed:
        return None
    where, position = failed.topic_partition, failed.next_fetch_offset
    failed.drain()
    consumer.seek(where, position + 1)
    return where, position


def keep_joining(consumer: Any) -> None:
    """See a join through that `poll` has begun and not waited for.

    A leader that joins again because partitions appeared forgets, when `poll` times out in the middle, that it is
    joining: it then has no partitions and sends no heartbeats for ever, and `poll` spins.
    """
    if consumer.group_metadata().state == _REBALANCING:
        consumer._coordinator.request_rejoin()  # noqa: SLF001 - see the module


def give_back_parked_records(consumer: Any) -> None:
    """Let `poll` find the records that it put aside when their partition was paused, now that it is not any more.

    It looks for them only when it holds no records of another partition, and takes an empty rest for some: a resumed
    partition then waits until the others have new records, and on.
    """
    fetcher = consumer._fetcher  # noqa: SLF001 - see the module
    if not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001


def is_broken(producer: Any) -> bool:
    """Whether the producer can only be thrown away.

    An idempotent producer fails everything from the first error on that it cannot retry, and never recovers: one
    record that a broker does not take is enough.
    """
    manager = producer._transaction_manager  # noqa: SLF001 - see the module
    return manager is not None and manager.has_fatal_error()


def abandon(producer: Any) -> None:
    """End a producer without waiting: what it has on its way fails.

    `close` waits for all of that first. When it does not go out in time it raises, and the producer goes on in the
    background for ever, and may yet send what was given up.
    """
    producer._unregister_cleanup()  # noqa: SLF001 - see the module
    producer._sender.force_close()  # noqa: SLF001
    producer._closed = True  # noqa: SLF001
