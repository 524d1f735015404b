"""The keyword arguments of judges, and the settings that they make, are declared twice: once for each type checker."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest

from evaluators import OpenAIJudge
from evaluators.judges import retrying, settings


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (settings.EndpointOptions, settings.EndpointSettings),
        (settings.DecidingOptions, settings.DecidingSettings),
        (settings.WritingOptions, settings.WritingSettings),
        (retrying.RetryingOptions, retrying.RetryingSettings),
    ],
)
def test_options_are_the_fields_of_the_settings(options: Any, made: Any) -> None:
    of_settings = get_type_hints(made)
    assert get_type_hints(options) == {field.name: of_settings[field.name] for field in dataclasses.fields(made)}


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="temprature"):
        OpenAIJudge("m", api_key="k", temprature=1.0)
