"""File descriptors: as many as the system allows, and connections of senders within them."""

from __future__ import annotations

import logging
import resource
from typing import TypeVar

from collector.export.scrape import MOST_CONNECTIONS as METRICS
from collector.page.server import MOST_CONNECTIONS as PAGE
from collector.receive.settings import OtlpSettings

logger = logging.getLogger(__name__)

OWN = 192
"""Descriptors of the process itself: logs, brokers, judges, and files that are open for a moment."""

S = TypeVar("S", bound=OtlpSettings)


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard one; gives the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # the system does not allow it after all
            return soft
    return hard


def with_descriptors(settings: S, receivers: int, limit: int, *, each: int = 1) -> S:
    """A receiver's settings with as many connections as there are descriptors for, if all listeners are full.

    A connection takes `each` descriptors.

    The page and /metrics have theirs, and the process its own, so nobody who uses those up keeps senders out.
    """
    most = max(1, (limit - OWN - PAGE - METRICS) // receivers // each)
    if settings.max_connections <= most:
        return settings
    logger.warning(
        "receive: %d connections are accepted and not %d: the process may open %d files; raise it with ulimit -n",
        most,
        settings.max_connections,
        limit,
    )
    return settings.model_copy(update={"max_connections": most})
