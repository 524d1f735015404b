"""Lets the thread of one consumer stand still while a file is there: what a client library does that hangs.

Put before a service process by `install`. Waiting times are shorter there: the real ones are a minute, and one and a half.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from kafka.consumer.group import KafkaConsumer

from collector.logs import consumer_lag
from collector.logs.kafka.settings import KafkaSettings

SIGN = "stand still"
"""The name of the file, in the folder of the process."""
STALL_TIMEOUT = 18.0
STALLED_AFTER = 3.0


def install(folder: Path) -> None:
    """Python imports it before anything else where the folder is on PYTHONPATH."""
    folder.mkdir()
    (folder / "standing_poll.py").write_text(Path(__file__).read_text())
    (folder / "sitecustomize.py").write_text("import standing_poll\n\nstanding_poll.hold_polls()\n")


def hold_polls() -> None:
    """Have the thread that reads for `evaluate` wait for a lock that nobody releases, once the file is there."""
    held = threading.Lock()
    held.acquire()
    real: Any = KafkaConsumer
    poll = real.poll

    def poll_or_stand_still(consumer: Any, *arguments: Any, **named: Any) -> Any:
        if threading.current_thread().name.endswith(".evaluate") and Path(SIGN).exists():
            stand_still(held)
        return poll(consumer, *arguments, **named)

    real.poll = poll_or_stand_still
    defaults: Any = KafkaSettings.__init__.__kwdefaults__
    defaults["stall_timeout"] = STALL_TIMEOUT
    consumer_lag.STALLED_AFTER = STALLED_AFTER


def stand_still(held: threading.Lock) -> None:
    """Do not return. Its name is in the stack that the process leaves."""
    held.acquire()
