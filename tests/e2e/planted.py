"""Plug-ins in which a text, planted by a sender, ends the process: a bug that nobody knows of yet.

Installed for a service process by `install`: a dialect, an evaluator, an exporter and a redactor, all alike.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from collector.dialects.call import Call
from collector.dialects.dialect import Coverage, Dialect
from collector.export.exporter import ExportContext, ExporterSettings
from collector.otlp.span import LogRecord, Span
from collector.redact.finding import Finding
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.results import Evaluation, Score

POINTS = """[evalstream.dialects]
planted = planted:DIALECT
[evalstream.exporters]
planted = planted:PlantedExporter
[evalstream.redactors]
planted = planted:open_detector
"""


def install(folder: Path) -> None:
    """What `pip install` leaves of a package with these plug-ins; put the folder on PYTHONPATH."""
    folder.mkdir()
    (folder / "planted.py").write_text(Path(__file__).read_text())
    information = folder / "planted-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)


def strike(text: str) -> None:
    """End the process as the text says."""
    if "planted exit" in text:
        os._exit(9)
    if "planted crash" in text:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "planted loop" in text:
        while True:
            pass
    if "planted lock" in text:
        re.match(r"(a+)+$", "a" * 60 + "!")  # holds the interpreter for a million years
    if "planted error" in text:
        raise RuntimeError("a bug")


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    strike(str(span.attributes.get("planted.dialect", "")))
    return None


DIALECT = Dialect(name="planted", rank=1, read=read, evidence=("planted.dialect",), coverage=Coverage(libraries="none"))


class PlantedEvaluator(Evaluator[Turn]):
    kind: ClassVar[str] = "planted"
    needs_judge: ClassVar[bool] = False
    example: ClassVar[Example] = {}

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"input"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        del judge
        strike(case.input.removeprefix("evaluator: ") if (case.input or "").startswith("evaluator: ") else "")
        return Score(value=1.0)


class PlantedSettings(ExporterSettings):
    pass


class PlantedExporter:
    Settings: ClassVar[type[PlantedSettings]] = PlantedSettings

    @classmethod
    @asynccontextmanager
    async def open(cls, _settings: Any, _context: ExportContext) -> AsyncGenerator[PlantedExporter]:
        yield cls()

    async def export(self, batch: Sequence[Evaluation]) -> None:
        for each in batch:
            name = str(each.subject.conversation_id)
            strike(name.removeprefix("exporter: ") if name.startswith("exporter: ") else "")


def open_detector() -> Any:
    def find(text: str) -> Iterable[Finding]:
        strike(text.removeprefix("redactor: ") if text.startswith("redactor: ") else "")
        return ()

    return find
