from __future__ import annotations

from collector.page.sources import DeadLetters, Traffic
from collector.page.wiring import sources_of
from collector.telemetry import TURNS, Telemetry


def test_tells_what_the_process_has_counted():
    telemetry = Telemetry()
    sources = sources_of(telemetry)
    assert (sources.traffic(), sources.dead_letters()) == ([], [])
    telemetry.counter(TURNS, "helpdesk", "sampled").inc(3)
    telemetry.counter(TURNS, "helpdesk", "sampled_out").inc(2)
    telemetry.counter(TURNS, "", "unmatched").inc()
    telemetry.drop("assemble", "unreadable")
    assert sources.traffic() == [
        Traffic(monitor="helpdesk", counts={"sampled": 3, "sampled_out": 2}),
        Traffic(monitor="", counts={"unmatched": 1}),
    ]
    assert sources.dead_letters() == [DeadLetters(stage="assemble", reason="unreadable", count=1)]
