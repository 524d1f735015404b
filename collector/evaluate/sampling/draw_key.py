"""The key of the draws. It is made once, and stored in a log that all processes of a deployment read.

Without a key the draw would be a public hash of the id, and a sender who chooses ids could choose what is judged.
"""

import secrets
import time
from dataclasses import dataclass

from evaluators.judges.definition_cache import AnswerStore

_KEY = "draw/key"


@dataclass(frozen=True, slots=True)
class DrawKey:
    """A key of 64 hex digits, and when it was made (s since the epoch)."""

    secret: str = ""
    since: float = 0.0

    def at(self, moment: float) -> str:
        """The key for a draw at a moment; "" for draws of an earlier release, which used none."""
        return self.secret if moment >= self.since else ""


PUBLIC = DrawKey()
"""The absence of a key: draws are a public hash."""


async def make_draw_key(definitions: AnswerStore) -> str:
    """The key, which is made if there is none; waits while the log is unavailable."""
    if await definitions.load(_KEY) is None:
        await definitions.save(_KEY, f"{secrets.token_hex(32)} {time.time():.3f}")
    return (await draw_key(definitions)).secret


async def draw_key(definitions: AnswerStore) -> DrawKey:
    """The key that a service has made; `PUBLIC` if none has yet."""
    text = await definitions.load(_KEY)
    if text is None:
        return PUBLIC
    secret, since = text.split(" ")
    return DrawKey(secret, float(since))
