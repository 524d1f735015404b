"""A warning for evaluators in code that look for what redaction takes out."""

from __future__ import annotations

from typing import Any

import pytest
from configurations import checked


def warnings_of(definition: dict[str, Any], **redact: Any) -> list[str]:
    config = checked({"leaks": definition}, redact=redact)
    return list(config.warnings)


@pytest.mark.parametrize(
    ("definition", "where"),
    [
        ({"kind": "regex", "pattern": r"[\w.]+@[\w.]+"}, "pattern: looks for e-mail addresses"),
        ({"kind": "regex", "pattern": r"@example\.com"}, "pattern: looks for e-mail addresses"),
        ({"kind": "regex", "pattern": r"\b(?:\d[ -]?){15}\d\b"}, "pattern: looks for card numbers"),
        ({"kind": "regex", "pattern": r"\bDE\d{20}\b"}, "pattern: looks for IBANs"),
        ({"kind": "regex", "pattern": r"sk-[\w-]{20,}"}, "pattern: looks for keys"),
        ({"kind": "contains", "search_text": "jane.doe@example.org"}, "search_text: looks for a text that is personal"),
        (
            {"kind": "json_schema", "json_schema": {"properties": {"mail": {"pattern": "^[^@]+@[^@]+$"}}}},
            "json_schema: looks for e-mail addresses",
        ),
    ],
)
def test_what_cannot_be_there(definition: dict[str, Any], where: str) -> None:
    [warning] = warnings_of(definition)
    assert warning.startswith(f"evaluators.leaks.{where}")
    assert "set redact.enabled to false" in warning
    assert warnings_of(definition, enabled=False) == []


@pytest.mark.parametrize(
    "definition",
    [
        {"kind": "regex", "pattern": r"\bINV-\d{6}\b"},
        {"kind": "regex", "pattern": r"\d{4}"},
        {"kind": "regex", "pattern": r".*"},
        {"kind": "regex", "pattern": r"<EMAIL_[a-z2-7]{8}>"},
        {"kind": "contains", "search_text": "terms and conditions"},
        {"kind": "json_schema", "json_schema": {"type": "object", "properties": {"id": {"pattern": "^A-\\d+$"}}}},
        {"kind": "length", "maximum": 5},
    ],
)
def test_what_redaction_leaves(definition: dict[str, Any]) -> None:
    assert warnings_of(definition) == []
