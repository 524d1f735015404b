"""Names and ids that every evaluation repeats are of a bounded length."""

from __future__ import annotations

from typing import Any

from made_up import Trace, chat


def test_a_name_longer_than_any_is_none() -> None:
    for length, expected in ((1000, True), (1001, False), (1_000_000, False)):
        more: dict[str, Any] = {"gen_ai.response.id": "r" * length, "gen_ai.request.model": "m" * length}
        trace = Trace(resource={"service.name": "s" * length}).span(1, "chat", chat("Hello?", "Hello!", **more))
        [turn] = trace.turns()
        assert turn.actual_output == "Hello!"
        assert [each is not None for each in (turn.response_id, turn.model, turn.service)] == [expected] * 3
