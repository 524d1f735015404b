"""The queue for people in a real browser: blind, by keys alone, with undo, and agreement of two."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from chromium import Chromium
from shown import ASKED, showing

from collector.page.label_queue import LabelQueueSettings
from collector.page.settings import PageSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")  # where the browser runs

PICTURES = Path(__file__).parents[2] / "deploy" / "pictures"
ALL = PageSettings(queue=LabelQueueSettings(random=1.0, twice=1.0))
LABELS = 50


async def test_fifty_labels_by_keyboard_without_seeing_a_score_before(chromium: Chromium) -> None:
    async with showing(ALL) as shown:
        for number in range(LABELS):
            question, good, bad = ASKED[number % len(ASKED)]
            turn = await shown.put_turn(f"visit-{number}", question, good if number % 3 else bad)
            await shown.put(shown.judged(turn, 0.123 if number % 2 else 0.877, explanation=f"because of {number}"))
        await shown.until_listed(LABELS)
        async with chromium.browsing(shown.url("queue")) as tab:
            assert "labelled by two people" in await tab.locator("#ask").inner_text()
            await tab.keyboard.type("ann")
            await tab.keyboard.press("Enter")
            for number in range(LABELS):
                await tab.wait_for_selector("body[data-item]:not([data-item='']) .talk")
                before = await tab.locator("main").inner_text()
                assert not [each for each in ("0.12", "0.88", "because of") if each in before], "blind"
                if number == 1 and os.environ.get("EVALSTREAM_PICTURES"):
                    await tab.screenshot(path=PICTURES / "queue.png")
                item = await tab.locator("body").get_attribute("data-item")
                await tab.keyboard.press("gbx"[number % 3])
                await tab.wait_for_selector("#judge:has-text('The judge: 0.')")
                if number == 0:
                    await tab.wait_for_selector("#progress:has-text('1 by you')")
                if number == 1 and os.environ.get("EVALSTREAM_PICTURES"):
                    await tab.screenshot(path=PICTURES / "queue-labelled.png")
                await tab.keyboard.press("Enter")
                await tab.wait_for_selector(f"body:not([data-item='{item}'])")
            assert "Nothing is left for you" in await tab.locator("#item").inner_text()
            assert "Drawn from the newest scores, since" in await tab.locator("#since").inner_text()
            assert f"{LABELS} of {LABELS} drawn are labelled" in await tab.locator("#progress").inner_text()
            await tab.keyboard.press("u")
            await tab.wait_for_selector("body[data-item]:not([data-item='']) .talk")
            assert "1 left for you" in await tab.locator("#progress").inner_text()
        labels = await shown.labels()
        assert len(labels) == LABELS + 1
        assert {each.label_probability for each in labels} == {1.0}
        assert sum(each.score is not None for each in labels[:LABELS]) == 34
        assert [each.state for each in labels if each.state] == ["retracted"]


async def test_two_people_label_the_same_and_a_picked_label_is_not_of_the_queue(chromium: Chromium) -> None:
    async with showing(ALL) as shown:
        turns = [await shown.put_turn(f"visit-{n}", f"question {n}", "An answer.") for n in range(3)]
        judged = [shown.judged(turn, 0.2) for turn in turns]
        await shown.put(*judged)
        await shown.until_listed(3)
        async with chromium.browsing(shown.url(f"?evaluation={judged[0].evaluation_id}")) as tab:
            await tab.click(".choice:has-text('Disagree')")
            await tab.click(".labelling button")
            await tab.wait_for_selector("#rows .opinion:has-text('✗')")
        for person in ("ann", "ben"):
            async with chromium.browsing(shown.url("queue")) as tab:
                await tab.fill("input[name=by]", person)
                await tab.keyboard.press("Enter")
                for _ in range(3):
                    await tab.wait_for_selector("body[data-item]:not([data-item='']) .talk")
                    item = await tab.locator("body").get_attribute("data-item")
                    is_first = item == judged[0].evaluation_id
                    await tab.keyboard.press("g" if person == "ann" or is_first else "b")
                    await tab.wait_for_selector("#judge:has-text('The judge: 0.')")
                    await tab.keyboard.press("Enter")
                    await tab.wait_for_selector(f"body:not([data-item='{item}'])")
                text = await tab.locator("#people").inner_text()
                assert ("agree about 33 % of 3 answers" in text) == (person == "ben"), text
        assert len([each for each in await shown.labels() if each.label_probability is None]) == 1


async def test_a_verdict_labels_the_answer_for_every_monitor_that_drew_it(chromium: Chromium) -> None:
    async with showing(ALL) as shown:
        turn = await shown.put_turn("visit-1", "a question", "An answer.")
        both = [shown.judged(turn, 0.2), shown.judged(turn, 0.9, monitor="everything")]
        await shown.put(*both)
        await shown.until_listed(2)
        async with chromium.browsing(shown.url("queue")) as tab:
            await tab.fill("input[name=by]", "ann")
            await tab.keyboard.press("Enter")
            await tab.wait_for_selector("body[data-item]:not([data-item='']) .talk")
            await tab.keyboard.press("g")
            await tab.wait_for_selector("#judge:has-text('The judge: 0.')")
            await tab.keyboard.press("Enter")
            await tab.wait_for_selector("#item:has-text('Nothing is left for you')")
            assert "1 of 1 drawn are labelled" in await tab.locator("#progress").inner_text()
        labels = {each.evaluation_id: each.monitor for each in await shown.labels()}
        assert labels == {each.evaluation_id: each.monitor for each in both}


async def test_nothing_but_what_was_drawn_is_taken_and_texts_stay_hidden(chromium: Chromium) -> None:
    none = PageSettings(queue=LabelQueueSettings(random=0.001, doubtful=0.0), show_text=False)
    async with showing(none) as shown:
        judged = shown.judged(await shown.put_turn("visit-1", "a question", "An answer."), 0.2)
        await shown.put(judged)
        await shown.until_listed(1)
        await asyncio.sleep(0)
        async with chromium.browsing(shown.url("queue"), allow="409") as tab:
            await tab.fill("input[name=by]", "ann")
            await tab.keyboard.press("Enter")
            await tab.wait_for_selector("#judge:has-text('texts are hidden')")
            response = await tab.request.post(
                shown.url(f"api/queue/{judged.evaluation_id}"),
                data={"by": "ann", "verdict": "good"},
                headers={"Origin": shown.url().rstrip("/")},
            )
            assert response.status == 409
            assert "not in the queue" in (await response.json())["error"]
