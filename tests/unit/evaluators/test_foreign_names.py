"""Names of other libraries end in an error that names ours."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import ValidationError

import evaluators
from evaluators.foreign_names import ARGUMENTS, EVALUATOR, PACKAGE


@pytest.mark.parametrize("name", PACKAGE)
def test_names_of_the_package(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; "):
        getattr(evaluators, name)


@pytest.mark.parametrize("name", [*EVALUATOR, "nothing"])
def test_names_of_an_evaluator(name: str) -> None:
    evaluator = evaluators.ExactMatch(name="x")
    with pytest.raises(AttributeError, match=f"ExactMatch has no attribute '{name}'"):
        getattr(evaluator, name)
    assert getattr(evaluator, name, 7) == 7
    assert pickle.loads(pickle.dumps(evaluator)) == copy.deepcopy(evaluator) == evaluator


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: (give|leave|write)"):
        evaluators.ExactMatch(name="x", **{name: True})


def test_a_misspelt_argument_is_told_with_the_one_that_is_meant() -> None:
    with pytest.raises(ValidationError, match=r"criterion: GEval has no such field; did you mean 'criteria'"):
        evaluators.GEval(name="x", criterion="Good.", evaluation_params=("input",))
