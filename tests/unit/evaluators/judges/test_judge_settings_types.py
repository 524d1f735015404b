"""The keyword arguments of judges, and the settings that they make, are declared twice: once for each type checker."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from evaluators import OpenAIJudge
from evaluators.judges import endpoint, retrying


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (endpoint.EndpointOptions, endpoint.EndpointSettings),
        (endpoint.DecidingOptions, endpoint.DecidingSettings),
        (endpoint.WritingOptions, endpoint.WritingSettings),
        (retrying.RetryingOptions, retrying.RetryingSettings),
    ],
)
def test_options_are_the_fields_of_the_settings(options: Any, made: Any) -> None:
    declared = {name: written(kind) for name, kind in options.__annotations__.items()}
    assert declared == {field.name: written(field.type) for field in dataclasses.fields(made)}


def written(kind: Any) -> str:
    """A type as its module writes it."""
    return kind if isinstance(kind, str) else getattr(kind, "__forward_arg__", None) or inspect.formatannotation(kind)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="temprature"):
        OpenAIJudge("m", api_key="k", temprature=1.0)
