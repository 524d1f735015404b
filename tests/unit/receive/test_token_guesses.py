"""Wrong tokens: slowed by address, counted, reported once; memory is bounded."""

from __future__ import annotations

import logging

import pytest

from collector.receive.access import FORGET_AFTER, FREE_GUESSES, GUESS_DELAY, MOST_ADDRESSES, TokenGuesses


def test_the_first_are_answered_at_once_and_the_others_wait():
    counted: list[None] = []
    guesses = TokenGuesses("page", lambda: 0.0, lambda: counted.append(None))
    assert [guesses.add("a") for _ in range(FREE_GUESSES + 2)] == [0.0] * FREE_GUESSES + [GUESS_DELAY] * 2
    assert guesses.add("b") == 0.0, "another address is not slowed"
    assert len(counted) == FREE_GUESSES + 3


def test_the_beginning_and_the_end_are_one_line_each(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    guesses = TokenGuesses("receive.otlp_http", lambda: now[0])
    with caplog.at_level(logging.INFO):
        for _ in range(500):
            guesses.add("address 192.0.2.1")
        now[0] = FORGET_AFTER + 1
        assert guesses.add("address 192.0.2.1") == 0.0, "it is forgotten"
    assert [each.getMessage() for each in caplog.records] == [
        "receive.otlp_http: wrong tokens from address 192.0.2.1; its answers now take 5 s",
        "receive.otlp_http: 500 wrong tokens from address 192.0.2.1; none for 60 s",
    ]


def test_many_addresses_take_bounded_memory_and_few_lines(caplog: pytest.LogCaptureFixture):
    guesses = TokenGuesses("page", lambda: 0.0)
    for number in range(100):
        for _ in range(FREE_GUESSES + 1):
            guesses.add(f"address {number}")
    assert len(caplog.records) == 20
    for number in range(2 * MOST_ADDRESSES):
        guesses.add(f"other {number}")
    assert len(guesses._addresses) <= MOST_ADDRESSES
