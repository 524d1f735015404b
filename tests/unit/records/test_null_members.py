"""A member that is null counts as left out, also where nothing can be read without it."""

from __future__ import annotations

import pytest

from collector.errors import BadInput
from collector.records.ready_made import turns_in


@pytest.mark.parametrize("named", [{}, {"conversation_id": "c-1"}])
@pytest.mark.parametrize("member", ["messages", "turns"])
def test_what_has_no_turns_says_what_is_wanted(member: str, named: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=f"{member} must be an array of objects"):
        list(turns_in({member: None, **named}))
