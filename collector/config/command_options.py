"""Options that many commands have: their fields, their refusals, each in one sentence with the remedy, and the file of
--output.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from collector.errors import ConfigError
from collector.wording import unknown
from evaluators.private_files import open_private


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """The options of a command that reads the past, from `since` to before `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions:
    """The options of a command that asks judges: the most that they may cost, the file of the results, the form."""

    max_usd: float | None = None
    output: Path | None = None
    json: bool = False


def require_known(option: str, noun: str, names: Iterable[str | None], known: Collection[str]) -> None:
    """See that all names but None are known. Raises ConfigError."""
    for name in names:
        if name is not None and name not in known:
            raise ConfigError(f"{option}: {unknown(noun, name, sorted(known))}")


def refuse_existing(path: Path) -> None:
    """Refuse a file of --output that exists. Raises ConfigError."""
    if path.exists():
        raise ConfigError(f"{path}: exists already; name another file with --output")


def write_new(path: Path, content: bytes) -> None:
    """Write the file that --output names, for its owner alone. Raises ConfigError: it exists, or cannot be written."""
    try:
        with open(path, "xb", opener=open_private) as file:
            file.write(content)
    except FileExistsError as error:
        raise ConfigError(f"{path}: exists already; name another file with --output") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --output") from error


def require_window(since: datetime, until: datetime) -> None:
    """See that a stretch of time is not empty. Raises ConfigError."""
    if since >= until:
        raise ConfigError("--from and --to: the time must begin before it ends")
