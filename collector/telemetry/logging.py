"""The service's own log: one JSON object a line, whatever is in the message.

Of a frequent event, the first is logged at once, and then one a minute with the number since.
"""

import logging
import math
import re
import ssl
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import orjson

from collector.telemetry.plain import plain

EVERY = 60.0
"""Seconds between two lines."""


class SparseLog:
    """Warnings about one thing. `clock` gives seconds."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._last: float | None = None
        self._left_out = 0

    def warn(self, message: str, count: int = 1) -> None:
        """Warn of `count` cases, if the last line is a minute old; the next line says how many were left out."""
        now = self._clock()
        if self._last is not None and now - self._last < EVERY:
            self._left_out += count
            return
        more = f" ({self._left_out:,} more since the line before)" if self._left_out else ""
        self._logger.warning("%s%s", message, more)
        self._last, self._left_out = now, 0


LogLevel = Literal["info", "warning", "error"]

_TALKATIVE = ("httpx2", "openai", "kafka")
"""Libraries that write a line for each request to a judge, or each step of a connection; with passwords, at DEBUG."""
_ABOUT_ITSELF = ("kafka.net.selector", "kafka.coordinator.assignors")
"""Loggers with warnings about a library's own pace, and about topics whose metadata has not come yet."""
_REPETITIVE = (
    "kafka", "evaluators.evaluation", "collector.receive.files", "collector.receive.rejection", "collector.export.",
    "collector.assemble.fold", "collector.evaluate.recovery.ledger", "collector.logs.kafka.records",
    "collector.logs.consumer_lag", "collector.page.server", "collector.admission.",
)  # fmt: skip
"""Loggers that write the same line again and again: a library many times a second in an outage, others for each item
that has a fault.
"""
_SERVER = "aiohttp.server"
_NO_HTTP = (
    "a request of %s is refused, as it is no HTTP/1.1 or its headers are too long; an endpoint here begins with "
    "http:// unless its section has tls, and gRPC has a port of its own"
)
_RECONNECTS = ("kafka.net.", "kafka.cluster", "kafka.coordinator", "kafka.consumer.fetcher", "kafka.producer")
"""Loggers of a library that connects again: our own lines say what lasts, and why a producer is refused."""
_FOR_EACH_GROUP = ("collector.backoff", "collector.logs.kafka.group_watch")
"""Loggers that write the same line for each consumer of brokers that are away, or back."""
_GROUP = re.compile(r"\d++|\bgroup [^ :]++")
_VARIES = re.compile(r"(?<![\w.])(?<!line )(?<!status )(?<!py:)\d[\d.]*+|'[^']{0,99}'|<[^>]{0,99}>|\([^()]{0,99}\)")
"""The parts in which two lines of one kind differ. A place in the code, a status and a name with a number are none."""
_MOST_KINDS = 500
_GONE_AFTER = 3 * EVERY
"""Seconds without a record of the group whose line stands for others, after which one of these has a line."""


class JsonLines(logging.Formatter):
    r"""Formats a record as one line of JSON.

    Characters that move the cursor, end lines or turn the direction of writing are written as `\\u202e`. An exception
    is written as its type and its place in the code: its message may hold judged text, and so may what asyncio writes
    of a task beyond the first line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line, without its end."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": plain(_message(record)),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["error"] = type(error).__name__
            fields["where"] = [
                f"{summary.filename}:{summary.lineno}" for summary in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return orjson.dumps(fields).decode()


class OncePerMinute(logging.Filter):
    """Lets a repetitive logger write one line of a kind in a minute; the next one says how many were left out.

    Of a state of many groups, it writes the begin for one of them, and the end of each group whose begin was written. A
    begin that is logged `again` is written only if the first was not.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[object, ...], tuple[float, int]] = {}
        # errors of states whose end has no line yet, and when a group with a line last had each
        self._begun = defaultdict[tuple[str, str], dict[type, float]](dict)
        self._written = set[tuple[str, str]]()  # what has a line at its begin, and none at its end

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if record.name not in _FOR_EACH_GROUP or not isinstance(record.args, tuple) or not record.args:
            return self._is_first(record)
        own, error = (record.name, str(record.args[0])), type(record.args[-1])
        state = record.name, _GROUP.sub("", own[1])
        if record.levelno == logging.INFO:
            if is_written := own in self._written:
                self._written.remove(own)
                self._begun.pop(state, None)
            return is_written
        begun, now = self._begun[state], self._clock()
        if own in self._written and error in begun:
            begun[error] = now
        is_represented = getattr(record, "again", False) and now - begun.get(error, -math.inf) < _GONE_AFTER
        if is_represented or not self._is_first(record):
            return False
        begun[error] = now
        self._written.add(own)
        return True

    def _is_first(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        varies = _GROUP if record.name in _FOR_EACH_GROUP else _VARIES
        if record.name == _SERVER and type(error).__module__ == "aiohttp.http_exceptions":
            record.levelno, record.levelname, record.msg, record.exc_info = logging.WARNING, "WARNING", _NO_HTTP, None
        elif varies is _VARIES and not record.name.startswith(_REPETITIVE):
            return record.levelno > logging.DEBUG
        if record.name.startswith(_RECONNECTS) and isinstance(error, ConnectionError | ssl.SSLEOFError | None):
            return False
        message, now = record.getMessage(), self._clock()
        kind = record.name, varies.sub("", message), type(error)
        since, left_out = self._kinds.get(kind, (-math.inf, 0))
        if now - since < EVERY:
            self._kinds[kind] = since, left_out + 1
            return False
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = now, 0
        if left_out:
            record.msg, record.args = f"{message} ({left_out:,} more since the line before)", None
        return True


def level_of(name: LogLevel | None) -> int:
    """The level of a name; without one, the level of `info`."""
    return logging.getLevelNamesMapping()[(name or "info").upper()]


def set_level(level: int) -> None:
    """From now on write no line of a lower level."""
    logging.getLogger().setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    # that the first request of a connection is no HTTP is written at this level
    logging.getLogger(_SERVER).setLevel(logging.DEBUG if level <= logging.WARNING else level)
    for name in _ABOUT_ITSELF:
        logging.getLogger(name).setLevel(logging.ERROR)


def log_as_json(level: int = logging.INFO) -> None:
    """Write the whole process's log to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(OncePerMinute())
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    is_long = record.name == "asyncio" and not message.isprintable()  # further lines show exceptions' messages
    return message.partition("\n")[0] if is_long else message
