"""What a question that is asked beyond an evaluation is paid from."""

from __future__ import annotations

from typing import Protocol


class Till(Protocol):
    """Pays for one question more."""

    def open(self) -> bool:
        """Set aside what it will cost; False if a hard cap is reached: it is not to be asked."""
        ...

    def close(self, usd: float | None) -> None:
        """It was asked, or given up. `usd` is what it cost."""
        ...


class NoTill:
    """There is no budget."""

    def open(self) -> bool:
        """Whatever it costs."""
        return True

    def close(self, usd: float | None) -> None:
        """Nothing."""
