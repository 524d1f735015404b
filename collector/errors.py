"""What can go wrong in the service, as one tree.

EvalstreamError
├── ConfigError     the command or its configuration is wrong; exit status 2
├── BadInput        what a sender sent cannot be read; counted and answered, never fatal
├── Overloaded      no room now; the sender should come again
└── LogError        a log could not do what was asked (collector.logs.log)
"""

from __future__ import annotations


class EvalstreamError(Exception):
    """Base of the service's own errors. The message is one sentence fit for a user."""


class ConfigError(EvalstreamError):
    """The command or its configuration is wrong: names the file, the path in it and what to write instead."""


class BadInput(EvalstreamError):
    """What a sender sent cannot be read. The message says why, without the content."""

    secret = False
    """Whether no copy of it may be kept either."""


class Overloaded(EvalstreamError):
    """No room now. `retry_after` is the wait in seconds to ask of the sender."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure in a group of them, however deeply it is wrapped: what a user should hear of."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]
