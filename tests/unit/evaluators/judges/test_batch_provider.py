"""What a provider sends that is shown to people, or put into an address."""

from __future__ import annotations

import pytest

from evaluators.errors import NoCompletion
from evaluators.judges.batches.provider import id_in, short_name


@pytest.mark.parametrize("name", ["batch_68a1", "file-2", "token_limit_exceeded", "msgbatch_01.a"])
def test_short_names(name: str) -> None:
    assert short_name(name) == name
    assert id_in({"id": name}) == name


@pytest.mark.parametrize("value", ["", None, 7, "a b", "../files", "\x1b[2J", "x" * 129, "naïve"], ids=repr)
def test_anything_else_is_none(value: object) -> None:
    assert short_name(value) == ""
    with pytest.raises(NoCompletion):
        id_in({"id": value})
