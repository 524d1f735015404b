"""Microsoft Presidio as a detector: names, places and what else its recognisers know. Needs the extra `presidio`."""

from collections.abc import Iterator
from typing import Any

from collector.errors import ConfigError
from collector.redact.finding import Detector, Finding

_LEAST = 0.5
"""Presidio's own certainty, 0..1, from which on a finding counts."""


def open_presidio() -> Detector:
    """The entry point `presidio`. Loads its language model, which takes seconds and hundreds of megabytes.

    Raises:
        ConfigError: the extra is not installed.
    """
    try:
        from presidio_analyzer import AnalyzerEngine  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        raise ConfigError("the redactor presidio is not installed: pip install '.[presidio]'") from None
    return detector_of(AnalyzerEngine())


def detector_of(engine: Any) -> Detector:
    """The results of an analyser, as findings."""

    def find(text: str) -> Iterator[Finding]:
        for each in engine.analyze(text=text, language="en", score_threshold=_LEAST):
            yield Finding(each.start, each.end, each.entity_type)

    return find
