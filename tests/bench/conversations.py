"""Memory of open conversations, and what adding a turn costs: `python tests/bench/conversations.py`.

100,000 open conversations of 6 turns, 1 kB of text a turn. Each size runs in a process of its own.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.packed_turn import IncomingTurn, pack, prior_user_hashes
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.recovery.replay_point import ReplayPoint
from evaluators.cases import Message, Turn

TURNS = 6
TEXT = 1000
SIZES = (1_000, 10_000, 100_000)
MEASURED = 3_000


def resident() -> int:
    """Resident memory of this process in bytes."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def prose(chance: random.Random, words: Sequence[str], length: int) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) + len(parts) < length:
        parts.append(chance.choice(words))
    return " ".join(parts)[:length]


class Traffic:
    """Turns whose histories repeat all that was said before, as applications send them."""

    def __init__(self, words: Sequence[str]) -> None:
        self._chance = random.Random(7)
        self._words = words
        self._pool = [prose(self._chance, words, TEXT) for _ in range(5_000)]
        self._position = 0

    def turn(self, conversation: int, number: int) -> Turn:
        text = self._pool[(conversation * 31 + number * 7919) % len(self._pool)]
        cut = TEXT // 4
        before = [self._pool[(conversation * 31 + n * 7919) % len(self._pool)] for n in range(number)]
        history = [
            Message(role=role, content=part)
            for each in before
            for role, part in (("user", f"{conversation} {each[:cut]}"), ("assistant", each[cut:]))
        ]
        moment = datetime.fromtimestamp(1e9 + number, UTC)
        return Turn(
            turn_id=f"{self._chance.getrandbits(128):032x}",
            conversation_id=f"conversation-{conversation}",
            trace_id=f"{self._chance.getrandbits(128):032x}",
            span_id=f"{self._chance.getrandbits(64):016x}",
            service="chat-api",
            dialect="otel_genai",
            model="gpt-4.1-mini",
            started_at=moment,
            ended_at=moment,
            history=tuple(history),
            input=f"{conversation} {text[:cut]}",
            actual_output=text[cut:],
        )

    def add(self, conversations: KeyedSessions, conversation: int, number: int) -> tuple[float, float]:
        """Add a turn; seconds for packing it and for the state machine."""
        turn = self.turn(conversation, number)
        start = time.perf_counter()
        arrival = IncomingTurn(turn.turn_id, pack(turn, 1e9 + number), prior_user_hashes(turn))
        packed = time.perf_counter()
        time_now = 1e9 + number
        for _ in conversations.advance(time_now, self._position):
            raise AssertionError("nothing is over yet")
        conversations.add(f"conversation-{conversation}", arrival, ReplayPoint(self._position, time_now), time_now)
        self._position += 1
        return packed - start, time.perf_counter() - packed


def measure(size: int) -> None:
    words = sorted({word for word in Path(__file__).read_text().split() if word.isalpha()}) + [
        f"w{n:x}" for n in range(4000)
    ]
    traffic = Traffic(words)
    conversations = KeyedSessions(SessionWindowSettings())
    gc.collect()
    before = resident()
    costs: list[tuple[float, float]] = []
    for number in range(TURNS):
        for conversation in range(size):
            cost = traffic.add(conversations, conversation, number)
            if number == TURNS - 1 and conversation < MEASURED:
                costs.append(cost)
    gc.collect()
    each = (resident() - before) / size
    costs_of = [sorted(part)[len(costs) // 2] * 1e6 for part in zip(*costs, strict=True)]
    print(
        f"{size:>8,} open: {each:,.0f} bytes each resident, of {TURNS * TEXT:,} of text ({each - TURNS * TEXT:+,.0f}); "
        f"accounted {conversations.size / size:,.0f}; a turn: {costs_of[0]:.1f} us to pack, {costs_of[1]:.2f} us to add (medians)"
    )
    assert each <= TURNS * TEXT + 2000, "text + 2 kB"


def main() -> None:
    if len(sys.argv) > 1:
        return measure(int(sys.argv[1]))
    for size in SIZES:
        subprocess.run([sys.executable, __file__, str(size)], check=True)
    return None


if __name__ == "__main__":
    main()
