"""Refusals of options that many commands have, each in one sentence with the remedy."""

from collections.abc import Collection, Iterable
from datetime import datetime

from collector.errors import ConfigError
from collector.wording import unknown


def require_known(option: str, noun: str, names: Iterable[str | None], known: Collection[str]) -> None:
    """See that all names but None are known. Raises ConfigError."""
    for name in names:
        if name is not None and name not in known:
            raise ConfigError(f"{option}: {unknown(noun, name, sorted(known))}")


def require_window(since: datetime, until: datetime) -> None:
    """See that a stretch of time is not empty. Raises ConfigError."""
    if since >= until:
        raise ConfigError("--from and --to: the time must begin before it ends")
