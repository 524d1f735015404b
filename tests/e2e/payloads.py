"""The captured payloads of real libraries, in order of arrival, with their truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden" / "otlp"

WHOLE_WAY = (
    "otel-genai-openai-span",
    "otel-genai-openai-event",
    "otel-openai-v2-events",
    "openinference-openai",
    "openinference-langchain",
)


def requests(dialect: str) -> Iterator[tuple[str, bytes]]:
    """(file name, body) of each request."""
    for path in sorted((GOLDEN / dialect).glob("*.pb")):
        yield path.name, path.read_bytes()


def truth(dialect: str) -> dict[str, Any]:
    return json.loads((GOLDEN / dialect / "expected.json").read_text())


def exchanges(dialects: tuple[str, ...] = WHOLE_WAY) -> list[dict[str, Any]]:
    return [exchange for dialect in dialects for exchange in truth(dialect)["exchanges"]]
