"""Plug-ins: built in, installed, or in a folder that the configuration names."""

from collector.plugins.folder import open_folder
from collector.plugins.registry import CONVERSATIONAL, detector, evaluator_class, judge_class, load, names, redactor
from collector.plugins.shapes import DIALECTS, EVALUATORS, EXPORTERS, REDACTORS

__all__ = [
    "CONVERSATIONAL", "DIALECTS", "EVALUATORS", "EXPORTERS", "REDACTORS", "detector", "evaluator_class", "judge_class",
    "load", "names", "open_folder", "redactor",
]  # fmt: skip
