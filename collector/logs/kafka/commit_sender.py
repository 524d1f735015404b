"""Sends the commits of a consumer in the thread that polls; they are asked for in the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from collector.logs.kafka.settings import translate
from collector.logs.log import Committed, LogError, LogUnavailable

Done = Callable[[LogError | None], None]
"""Takes the outcome of a commit, in the event loop."""

CallInLoop = Callable[..., None]
"""Calls a function with arguments in the event loop, soon."""

Offsets = dict[TopicPartition, Any]
"""The positions to commit, as kafka-python takes them. The library is untyped."""


@dataclass(frozen=True, slots=True)
class CommitCommand:
    """States by partition, each with the epoch in which it was reached."""

    states: Mapping[int, tuple[int, Committed]]
    done: Done


class CommitSender:
    """Queues and sends commits, and keeps those that no broker has answered."""

    def __init__(self, call: CallInLoop) -> None:
        self._call = call
        self._queued: deque[CommitCommand] = deque()
        self._unanswered: set[Done] = set()

    def add(self, command: CommitCommand) -> None:
        """Queue a commit; any thread may call this."""
        self._queued.append(command)

    def send_queued(self, consumer: Any, offsets_of: Callable[[CommitCommand], Offsets]) -> None:
        """Send what is queued. If nothing is left to commit, the command is done."""
        while self._queued:
            command = self._queued.popleft()
            if offsets := offsets_of(command):
                self.send(consumer, offsets, command.done)
            else:
                self._call(command.done, None)

    def send(self, consumer: Any, offsets: Offsets, done: Done) -> None:
        """Send one commit; does not wait for the answer."""

        def answered(_offsets: object, answer: object) -> None:
            self._unanswered.discard(done)
            self._call(done, translate(answer) if isinstance(answer, Exception) else None)

        self._unanswered.add(done)
        try:
            consumer.commit_async(offsets, callback=answered)
        except KafkaError as error:
            answered(offsets, error)

    def end(self) -> None:
        """Fail all commits that have no answer. Called in the event loop."""
        for done in [command.done for command in self._queued] + list(self._unanswered):
            done(LogUnavailable("the consumer has ended"))
