"""What a question that is asked beyond an evaluation is paid from."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Till(Protocol):
    """Pays for one question more."""

    def open(self, now: datetime) -> bool:
        """Set aside what it will cost; False if a hard cap is reached: it is not to be asked."""
        ...

    def close(self, usd: float | None, now: datetime) -> None:
        """It was asked, or given up. `usd` is what it cost."""
        ...


class NoTill:
    """There is no budget."""

    def open(self, now: datetime) -> bool:  # noqa: ARG002 - the port's signature
        """Whatever it costs."""
        return True

    def close(self, usd: float | None, now: datetime) -> None:
        """Nothing."""
