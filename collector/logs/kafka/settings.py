"""How to talk to Kafka, and what its errors mean to us."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from kafka import errors
from kafka.record import util as record_util

from collector.logs.kafka.credentials import Credentials
from collector.logs.log import InstanceInUse, LogError, LogRefused, LogUnavailable, NotPermitted, RecordTooLarge
from collector.wording import listed

_LOGIN = (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError)
_FATAL = (
    errors.KafkaConfigurationError,
    errors.InvalidTopicError,
    errors.InvalidSessionTimeoutError,
    errors.UnsupportedVersionError,
)
_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """How to talk to Kafka. Times are in seconds.

    `group_prefix` begins the names of the logs' groups. `group_instance_id` is a name that outlives restarts of the
    process: with it a restart within `session_timeout` moves no partitions. `max_poll_interval` is how long a
    rebalance waits for this process; the thread that polls does no work, so it can be short. `max_queued` bounds
    the records and bytes of one partition that wait for its fold, `max_in_flight` the records and bytes that wait
    for acknowledgement, `max_batch_bytes` what a batch may be when decompressed. `delivery_timeout` is how long an
    append may wait for the broker. When the thread that polls has stood still for `stall_timeout`, the process
    writes down where it stands and exits. `credentials` secure the connections.
    """

    bootstrap_servers: Sequence[str]
    client_id: str = "evalstream"
    group_instance_id: str | None = None
    group_prefix: str = ""
    session_timeout: float = 45.0
    max_poll_interval: float = 60.0
    max_queued: tuple[int, int] = (5_000, 8 << 20)
    max_in_flight: tuple[int, int] = (20_000, 64 << 20)
    max_record_bytes: int = 16 << 20
    max_batch_bytes: int = 64 << 20
    compression: str | None = "lz4"
    linger: float = 0.005
    delivery_timeout: float = 30.0
    request_timeout: float = 15.0
    stall_timeout: float = 90.0
    credentials: Credentials = field(default_factory=Credentials)

    def client_options(self) -> dict[str, Any]:
        """Options that every client takes."""
        return {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": milliseconds(min(self.request_timeout, 10.0)),
            "request_timeout_ms": milliseconds(self.request_timeout),
            "reconnect_backoff_max_ms": 2_000,
            "metadata_max_age_ms": 30_000,  # a broker may not know all partitions of a new topic at first
        }

    def fetch_options(self) -> dict[str, Any]:
        """Options of every client that reads."""
        return {
            **self.client_options(),
            "enable_auto_commit": False,
            "fetch_max_wait_ms": min(250, milliseconds(self.request_timeout) // 2),
            "max_partition_fetch_bytes": 4 << 20,
            "fetch_max_bytes": 32 << 20,
            "metrics_enabled": False,
        }


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return int(seconds * 1000)


def require_crc32c() -> None:
    """Without the C checksum kafka-python reads 13 times slower: better not to start than to fall behind.

    Raises:
        LogError: it is missing.
    """
    if getattr(record_util, "crc32c_c", None) is None:
        raise LogError("Kafka needs the package crc32c, which is not installed: pip install 'kafka-python[crc32c]'")


_LONGEST = 300
"""Characters of an error of the client; it may repeat its request, or have one line for each partition."""
_REFUSAL = re.compile(r"([A-Za-z]{1,50})AuthorizationFailedError")
_RIGHTS = {
    "topic": "READ, WRITE, CREATE and DESCRIBE_CONFIGS of topics that begin with the prefix, READ of sources' topics",
    "group": "READ of groups that begin with the prefix, or with the group of the source",
    "cluster": "WRITE of topics that begin with the prefix (it has WRITE of none now)",
}
"""The missing rights, by the kind that a refusal names; the cluster refuses a producer that may write to no topic."""
_NAMED = re.compile(r"(?:GROUP/|name=')([^':]{1,300})")
"""The group or topic, in the client's words for a refusal."""


def translate(
    error: BaseException, settings: KafkaSettings | None = None, topic: str = "", group: str = "", reads: bool = False
) -> LogError:
    """Kafka's error as ours. Ours never hold what was read or written. With `settings` a refused login is named.

    `topic` is the one that was written to, `group` the one that was read for: so what is refused is known if the client
    does not say it, and which right of the topic is missing. `reads`: something was read without a group.
    """
    text = named_error(error).partition(" Request '")[0][:_LONGEST]
    if isinstance(error, LogError):
        return error
    if isinstance(error, errors.FencedInstanceIdError):
        name = "" if settings is None else f" {settings.group_instance_id!r}"
        return InstanceInUse(f"another process has taken the group_instance_id{name}; give each its own")
    if isinstance(error, _TOO_LARGE):
        return RecordTooLarge(text)
    if refusal := _REFUSAL.search(text):  # the client does not always raise the error that it names
        kind = refusal[1].lower()
        named = _named(error) or ([group] if kind == "group" and group else []) if kind in {"topic", "group"} else []
        parts = [kind, *named] if named or not topic else ["topic", topic]
        ending, them = ("s", "them") if len(named) > 1 else ("", "it")
        names = f" {listed(parts[1:])}" if parts[1:] else ""
        what = f"this user to use the {parts[0]}{ending}{names}" if parts[0] in {"topic", "group"} else "it"
        rights = _RIGHTS | ({"topic": f"{'WRITE' if topic else 'READ'} of {them}"} if topic or group or reads else {})
        return NotPermitted(f"Kafka does not permit {what}; grant this user {rights.get(kind, _RIGHTS['topic'])}")
    if isinstance(error, _LOGIN):
        if settings is not None and isinstance(error, errors.SaslAuthenticationFailedError):
            return LogRefused(f"Kafka at {', '.join(settings.bootstrap_servers)} {login_sentence(settings)}")
        return LogRefused(f"Kafka refuses the login ({type(error).__name__}); correct the keys under security")
    if isinstance(error, errors.RebalanceInProgressError):  # in the client's words it gives advice to programmers
        return LogUnavailable("Kafka divides the group's partitions again; this ends by itself")
    if isinstance(error, (errors.KafkaTimeoutError, errors.NodeNotReadyError)):
        where = f" at {', '.join(settings.bootstrap_servers)}" if settings is not None else ""
        words = text.partition(": Expiring")[0]  # which sounds like a loss, but the append fails and is made again
        return LogUnavailable(f"Kafka{where} does not answer in time ({words})")
    return LogError(text) if isinstance(error, _FATAL) else LogUnavailable(text)


def named_error(error: BaseException) -> str:
    """The error's class, and its words if there are any; the words of Kafka's own errors begin with the class."""
    name, words = type(error).__name__, str(error)
    return words if words.startswith(name) else f"{name}: {words}".removesuffix(": ")


def named_topics(error: BaseException) -> set[str]:
    """The topics that a refusal is about, as far as the client says it."""
    named = error.args[0] if error.args else None
    return cast("set[str]", named) if isinstance(named, set) else set()


def _named(error: BaseException) -> list[str]:
    """The topics or the group that a refusal is about, as far as the client says it."""
    return sorted(named_topics(error)) or _NAMED.findall(str(error))[:1]


def absent(topics: Sequence[str]) -> str:
    """A sentence on topics that brokers do not show."""
    return f"there is no topic {', '.join(topics)}, or this user may not see it (READ of it)"


def login_sentence(settings: KafkaSettings) -> str:
    """A refused login: whose it is, and the keys to correct."""
    security = settings.credentials.security
    if security is None or security.oauth is not None:
        client = security.oauth.client_id if security and security.oauth else ""
        return f"refuses the token of the client {client}; see that it trusts the endpoint, the scope and the audience"
    return (
        f"refuses the user {security.username} ({security.mechanism}): wrong user, password or mechanism; "
        "correct security.username, security.password (or password_file) or security.mechanism"
    )


@contextmanager
def translated(settings: KafkaSettings, *, reads: bool = False) -> Generator[None]:
    """Turns Kafka's errors into ours; `reads` as for `translate`."""
    try:
        yield
    except errors.KafkaError as error:
        raise translate(error, settings, reads=reads) from error
