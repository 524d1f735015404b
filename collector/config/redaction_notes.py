"""Warnings about evaluators without a judge that look for text that redaction has already removed."""

from collections.abc import Iterator, Mapping
from typing import Any

from collector.redact.open_redactor import RedactSettings
from collector.redact.patterns import built_in, configured
from collector.redact.redactor import Redactor
from evaluators.answers.schemas import nodes_of
from evaluators.evaluator import Evaluator
from evaluators.texts.linear_regex import matches

_SAMPLES = {
    "e-mail addresses": ("ann@example.com", "ann.lee@mail.example.org"),
    "telephone numbers": ("+49 170 1234567", "+1 202-555-0143", "+442079460123"),
    "card numbers": ("4111 1111 1111 1111", "4111111111111111", "4111-1111-1111-1111"),
    "IBANs": ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00"),
    "IP addresses": ("192.0.2.17", "203.0.113.9"),
    "keys": ("sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWxYz1234567890AbCdEfGh", "AKIAIOSFODNN7EXAMPLE"),
}
"""Samples to test patterns that look for personal data and secrets."""


def redaction_notes(evaluators: Mapping[str, Evaluator[Any]], settings: RedactSettings) -> Iterator[str]:
    """A sentence for each evaluator that cannot find what it looks for; none where nothing is redacted."""
    if not settings.enabled or "patterns" not in settings.detectors:
        return
    redactor = Redactor([built_in(), *([configured(settings.patterns)] if settings.patterns else [])], b"evalstream")
    for name, evaluator in evaluators.items():
        if evaluator.needs_judge:
            continue
        for key, target in _targets(evaluator, redactor):
            yield (
                f"evaluators.{name}.{key}: looks for {target}, which redaction replaces before evaluators see them, "
                "in `run` and in `score`; look for the pseudonyms, like `<EMAIL_`, or set redact.enabled to false"
            )


def _targets(evaluator: Evaluator[Any], redactor: Redactor) -> Iterator[tuple[str, str]]:
    """The keys of an evaluator that look for something redacted, and what that is."""
    match evaluator.kind:
        case "contains" if redactor.text(text := str(getattr(evaluator, "search_text", ""))) != text:
            yield "search_text", "a text that is personal data or a secret"
        case "regex":
            yield from (("pattern", kind) for kind in _kinds_lost(str(getattr(evaluator, "pattern", "")), redactor))
        case "json_schema":
            for node in nodes_of(getattr(evaluator, "json_schema", None)):
                if isinstance(pattern := node.get("pattern"), str):
                    yield from (("json_schema", kind) for kind in _kinds_lost(pattern, redactor))
        case _:
            return


def _kinds_lost(pattern: str, redactor: Redactor) -> Iterator[str]:
    """The kinds whose sample the pattern matches as a whole, but not its redacted form."""
    for kind, samples in _SAMPLES.items():
        if any(_is_lost(pattern, sample, redactor.text(sample)) for sample in samples):
            yield kind


def _is_lost(pattern: str, sample: str, redacted: str) -> bool:
    whole = matches(pattern, sample, whole=True) or ("@" in pattern and matches(pattern, sample))
    return whole and redacted != sample and not matches(pattern, redacted)
