"""The page for contributors names classes and files that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy" / "docs" / "inside.md").read_text(encoding="utf-8")
CLASSES = re.findall(r"^- `(\S+)\.(\w+)`: ", PAGE, re.MULTILINE)
PATHS = sorted({path for path in re.findall(r"`((?:collector|evaluators)/[\w/.]*)`", PAGE) if "<" not in path})


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_class_exists(module: str, name: str) -> None:
    assert isinstance(getattr(importlib.import_module(f"collector.{module}"), name), type)


@pytest.mark.parametrize("path", PATHS)
def test_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_page_lists_the_classes() -> None:
    assert len(CLASSES) == 10
