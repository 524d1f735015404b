"""A body that takes long holds up neither the event loop nor other senders."""

from __future__ import annotations

import asyncio
import threading

from collector.receive import otlp_ingest
from collector.receive.otlp_ingest import _LARGE_BODY_BYTES, _CpuShares


async def test_a_large_body_is_read_beside_the_event_loop():
    turns, may_end = _CpuShares(lambda: 0.0), threading.Event()
    large = asyncio.create_task(turns.take("a", _LARGE_BODY_BYTES, may_end.wait))
    try:
        assert await turns.take("b", 10, lambda: "small") == "small"
        assert not large.done()
    finally:
        may_end.set()
    assert await large


async def test_a_sender_whose_body_took_long_waits_as_long_while_others_do_not(monkeypatch):
    now, slept = 100.0, []

    async def sleep(seconds):
        nonlocal now
        slept.append(seconds)
        now += seconds

    took = iter([0.0, 3.0, 0.0, 0.1, 0.0, 0.1])
    monkeypatch.setattr(otlp_ingest.time, "thread_time", lambda: next(took))
    monkeypatch.setattr(otlp_ingest.asyncio, "sleep", sleep)
    turns = _CpuShares(lambda: now)
    assert await turns.take("a", 10, lambda: 1) == 1
    assert await turns.take("b", 10, lambda: 2) == 2
    assert not slept
    assert await turns.take("a", 10, lambda: 3) == 3
    assert slept == [3.0]
