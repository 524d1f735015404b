"""The deployment's key of the draws: who chooses ids does not choose what is judged."""

from __future__ import annotations

import random
from dataclasses import replace

from collector.evaluate.plan import Plan
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.evaluate.sampling.draw_key import PUBLIC, draw_key, make_draw_key
from collector.logs.memory import MemoryLog

RATE, TRIES, BAD = 0.05, 1_000, 25


def test_a_thousand_tries_of_chosen_ids_move_nothing_beyond_chance():
    """Each try takes ids that the public draw would select: with a secret key they hit as often as any others."""
    chance = random.Random(7)
    hits = 0
    for _ in range(TRIES):
        key = f"{chance.getrandbits(256):064x}"
        chosen: list[str] = []
        while len(chosen) < BAD:
            name = f"{chance.getrandbits(64):x}"
            if draw("evalstream", name) < RATE:
                chosen.append(name)
        hits += sum(draw(keyed_salt(key, "evalstream"), name) < RATE for name in chosen)

    expected = TRIES * BAD * RATE
    deviation = (TRIES * BAD * RATE * (1 - RATE)) ** 0.5
    assert abs(hits - expected) < 4 * deviation
    assert keyed_salt("", "evalstream") == "evalstream", "without a key the draw is public"


def test_another_salt_chooses_another_sample_with_the_same_key():
    assert keyed_salt("k", "one") != keyed_salt("k", "two")


def test_turns_drawn_before_the_key_are_drawn_again_as_they_were():
    plan = Plan((), salt="evalstream", key="a key")
    former = Plan((), salt="evalstream").sample_rates

    assert plan.drawing_with(former) == replace(plan, key="")
    assert plan.drawing_with(plan.sample_rates) == plan
    assert plan.sample_rates != former


async def test_the_key_is_made_once_for_all_processes():
    log = MemoryLog("definitions", partitions=1)
    one, other = await GeneratedStepsStore.open(log), await GeneratedStepsStore.open(log)

    assert await draw_key(one) == PUBLIC, "a command that only reads makes none"
    assert await make_draw_key(one) == await make_draw_key(other)
    key = await draw_key(other)
    assert len(key.secret) == 64
    assert key.at(key.since - 1) == "", "what was drawn before stays"
    assert key.at(key.since) == key.secret
