"""A steady rate through four processes over Kafka, beside what `evalstream check` predicts for the same traffic.

    python tests/bench/scale_run.py                          ten minutes at 400 turns a second, 5 % of them judged
    python tests/bench/scale_run.py --seconds 60 --rate 200 --sample 0.01 --keep wanted
    python tests/bench/scale_run.py --smoke                  whether it works at all

A process each receives, assembles, evaluates and exports; a turn is a model call of 2 kB in two spans, which come as the
Collector's exporter writes them, fifty traces a message, on topics of three partitions; the judge answers after 20 ms.
Broker, sender and judge share the machine, so the rate has to leave them a core.

CPU is counted once the way is filled, over the given seconds. The model's costs are those of one machine where nothing
else ran. What they would be here and now is told by a floor that is known of that machine, too, and measured while the
service runs: parsing spans, and their attributes as dicts. It prints a table, and ends with 0 when it ran, whatever the
ratios; which of them are beyond 20 % is said below.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

from broker import BrokerUnavailable, running_broker
from ingest import batches, dicts, mixed_span
from kafka_way import Topics
from measured import cpu_of
from processes import Process, processes
from quick_judge import serving
from whole_way import PER_REQUEST, STAGES

from collector.commands.check.capacity import FLOOR, capacity_of, costs_here
from collector.config.loading import load

WITHIN = 0.2
FLOOR_SPANS = 2048
PACE = 10.0
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen at a moment: CPU (s) and resident MB by stage, the turns that were evaluated, the floor (µs a span)."""

    at: float
    cpu: tuple[float, ...]
    memory: float
    done: float
    floor: float


class Sender(threading.Thread):
    """Sends so many turns a second, in messages of fifty, until it is stopped. `sent` counts them."""

    def __init__(self, topics: Topics, rate: float) -> None:
        super().__init__(daemon=True)
        self._topics, self._rate = topics, rate
        self._stop_asked = threading.Event()
        self.sent = 0
        self.latest = 0.0
        """The longest that a message was sent behind its time, in seconds."""

    def run(self) -> None:
        start = time.monotonic()
        while True:
            behind = time.monotonic() - start - self.sent / self._rate
            if self._stop_asked.wait(max(0.0, -behind)):
                return
            self.latest = max(self.latest, behind)
            self._topics.send(self.sent, PER_REQUEST)
            self.sent += PER_REQUEST

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def main() -> None:
    given = _arguments()
    try:
        with (
            running_broker() as broker,
            serving(0.02) as judge,
            tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder,
        ):
            topics = Topics(broker.bootstrap, "scale")
            config = _configuration(topics, judge, given)
            predicted = _predicted(config, Path(folder))
            looks, sender = _steady(topics, config, given, Path(folder))
            topics.close()
    except BrokerUnavailable as error:
        print(f"left out: Kafka: {error}")
        return
    _report(given, predicted, looks, sender)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long CPU is counted")
    parser.add_argument("--rate", type=float, default=400.0, help="turns a second")
    parser.add_argument("--sample", type=float, default=0.05, help="share that is judged")
    parser.add_argument("--keep", choices=("all", "wanted"), default="all", help="assemble.keep")
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    given = parser.parse_args()
    if given.smoke:
        given.seconds, given.rate = 6.0, 100.0
    return given


def _configuration(topics: Topics, judge: str, given: argparse.Namespace) -> dict[str, Any]:
    config = topics.config(judge, given.sample, given.keep)
    config["traffic"] = {"spans_per_second": 2 * given.rate, "spans_per_turn": 2}
    return config


def _predicted(config: dict[str, Any], folder: Path) -> dict[str, float]:
    """Cores by stage, as `evalstream check` says them."""
    path = folder / "predicted.yaml"
    path.write_text(yaml.safe_dump(config))
    found = capacity_of(load(path, {}), costs_here())
    assert found is not None
    return {each.stage: each.cores for each in found.stages}


def _steady(
    topics: Topics, config: dict[str, Any], given: argparse.Namespace, folder: Path
) -> tuple[list[Look], Sender]:
    with processes(folder, config, *STAGES) as running:
        sender = Sender(topics, given.rate)
        sender.start()
        try:
            time.sleep(2.0 if given.smoke else 15.0)  # until what is opened, imported and compiled at first is done
            looks = [_look(running)]
            until = looks[0].at + given.seconds
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(PACE, left))
                looks.append(_look(running))
        finally:
            sender.stop()
    return looks, sender


def _look(running: list[Process]) -> Look:
    cpu = tuple(each.cpu for each in running)
    at = time.monotonic()
    done = running[STAGES.index("evaluate")].metric("evalstream_turns_total")
    requests = list(batches(FLOOR_SPANS, mixed_span, 2))
    floor = statistics.median(cpu_of(lambda: dicts(requests)) for _ in range(5)) / FLOOR_SPANS * 1e6
    return Look(at, cpu, sum(each.memory for each in running), done, floor)


def _report(given: argparse.Namespace, predicted: dict[str, float], looks: list[Look], sender: Sender) -> None:
    first, last = looks[0], looks[-1]
    seconds, turns = last.at - first.at, last.done - first.done
    slower = statistics.median(each.floor for each in looks) / (FLOOR * 1e6)
    print(
        f"{turns / seconds:,.0f} turns/s ({given.rate:g} sent, at most {sender.latest:.1f} s late) for {seconds:.0f} s, "
        f"{given.sample:.0%} judged, keep: {given.keep}; load average {os.getloadavg()[0]:.1f}"
    )
    print(
        f"memory of the four processes: {first.memory:.0f} MB, at the end {last.memory:.0f} MB; "
        f"the floor takes {slower:.2f} times what it took where the costs were measured"
    )
    print(
        f"\n| stage | predicted, cores | measured, cores | measured, µs/turn | ratio | ratio by the floor of now |\n{'|---' * 6}|"
    )
    measured = {
        stage: (after - before) / seconds for stage, before, after in zip(STAGES, first.cpu, last.cpu, strict=True)
    }
    rows = [(stage, predicted[stage], measured[stage]) for stage in STAGES]
    rows.append(("all", sum(predicted[stage] for stage in STAGES), sum(measured.values())))
    beyond: list[str] = []
    for stage, expected, found in rows:
        ratio = found / expected
        print(
            f"| {stage} | {expected:.3f} | {found:.3f} | {found * seconds / max(1.0, turns) * 1e6:,.0f} "
            f"| {ratio:.2f} | {ratio / slower:.2f} |"
        )
        if abs(ratio / slower - 1.0) > WITHIN:
            beyond.append(stage)
    print(f"\naim, within {WITHIN:.0%}: " + ("reached" if not beyond else f"missed by {', '.join(beyond)}"))
    if turns < 0.95 * given.rate * seconds:
        print("the processes did not keep up with the rate: choose a lower one")


if __name__ == "__main__":
    main()
