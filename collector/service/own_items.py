"""The key with which a deployment signs what it exports: drawn once, and kept in a log that all its processes read."""

from __future__ import annotations

import secrets

from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.otlp.own_items import OwnItems

_KEY = "own items/key"


async def own_items(definitions: GeneratedStepsStore) -> OwnItems:
    """Recognises what this deployment has exported; waits while the log is unavailable."""
    key = await definitions.load(_KEY) or await definitions.save(_KEY, secrets.token_hex(32))
    return OwnItems(key.encode())
