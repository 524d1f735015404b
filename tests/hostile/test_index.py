"""The index of bad inputs names tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hostile_index import CASES

ROOT = Path(__file__).parents[2]


def test_every_number_is_there():
    assert sorted(CASES) == list(range(1, 31))


@pytest.mark.parametrize(("number", "name"), [(number, name) for number, case in CASES.items() for name in case.tests])
def test_the_test_exists(number, name):
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text())
    defined = {each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert function in defined
