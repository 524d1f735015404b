"""The errors of the service, as one tree.

EvalstreamError
├── ConfigError     the command or its configuration is wrong; exit status 2
├── BadInput        input of a sender cannot be read; counted and answered, never fatal
│   └── TooLarge    it is more than a limit allows in one request
├── Overloaded      a limit on what is in progress is reached; the sender should try again later
└── LogError        a log operation failed (collector.logs.log)
"""

DONE, FAILED, WRONG = 0, 1, 2
"""Exit statuses: done; the work failed or is a part; the command or its configuration is wrong."""


class EvalstreamError(Exception):
    """Base of the service's own errors. The message is one sentence for the user."""


class ConfigError(EvalstreamError):
    """The command or its configuration is wrong: names the file, the path in it and what to write instead."""


class BadInput(EvalstreamError):
    """Input of a sender cannot be read. The message says why, without the content."""

    secret = False
    """True if no copy of the input may be kept."""


class TooLarge(BadInput):
    """More than a limit allows in one request."""


class Overloaded(EvalstreamError):
    """A limit on what is in progress is reached: nothing was started, and the same may succeed later."""


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure in a group of them, however deeply it is wrapped: the one to report."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType]
