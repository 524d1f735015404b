"""Plug-ins: built in, installed, or in a folder that the configuration names."""

from collector.plugins.folder import open_folder
from collector.plugins.registry import (
    CONVERSATIONAL,
    DIALECTS,
    EVALUATORS,
    EXPORTERS,
    REDACTORS,
    evaluator_class,
    judge_class,
    load,
    names,
    redactor,
)

__all__ = [
    "CONVERSATIONAL", "DIALECTS", "EVALUATORS", "EXPORTERS", "REDACTORS", "evaluator_class", "judge_class", "load",
    "names", "open_folder", "redactor",
]  # fmt: skip
