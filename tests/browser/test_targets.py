"""Targets on the page: a line of their own where they are not the threshold, and alerts that unfold."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import Chromium
from playwright.async_api import expect
from shown import WATCHED, a_busy_hour, showing

from collector.page.sources import AlertView, Cause, ConfigurationView, PeopleView, Sources
from collector.statistics.audited_sums import SUM_NAMES, AuditedSums
from collector.statistics.confusion import UNKNOWN, Bounded, Confusion, VerdictAgreement

pytestmark = pytest.mark.asyncio(loop_scope="session")  # where the browser runs

CAUSE = Cause(part="model=gpt-5-mini", share=1.0, before=0.8, mean=0.3, traffic=0.5, read=("a",))
ALERT = AlertView(
    name="EvalstreamScoreDropped", monitor="helpdesk", evaluator=WATCHED[0].evaluator, severity="page",
    summary="The mean is 0.55 (95 %: ± 0.08), the target 0.90, since 21:11.", causes=(CAUSE,),
)  # fmt: skip


async def test_a_mean_of_older_scores_is_not_said_to_have_none(chromium: Chromium) -> None:
    """The badge said "no scores" beside "0.76 ±0.09" and "50 scores of 26 conversations"."""
    async with showing() as shown:
        turn = await shown.put_turn("c", "Is it open?", "Yes.")
        await shown.put(shown.judged(turn, 0.8, ago=1200.0))
        async with chromium.browsing(shown.url("?range=1h")) as tab:
            card = tab.locator(f".track[data-key='helpdesk/{WATCHED[0].evaluator}']")
            await expect(card.locator(".counts")).to_contain_text("1 score of 1 conversation")
            await expect(card.locator(".badge")).to_have_text("○ no score in 10 min")


async def test_a_badge_says_that_an_alert_fires(chromium: Chromium) -> None:
    """It said "near its target" under an alert that the mean was far below it."""
    watched = [replace(WATCHED[0], target=0.8), *WATCHED[1:]]
    for alerts, text in (([], "≈ near its target"), ([ALERT], "▼ an alert fires")):
        async with showing(watched=watched, sources=Sources(alerts=lambda alerts=alerts: alerts)) as shown:
            for number in range(100):
                turn = await shown.put_turn(f"c{number}", "Is it open?", "Yes.")
                await shown.put(shown.judged(turn, 0.6 + 0.4 * (number % 2), ago=5.0))
            async with chromium.browsing(shown.url("?range=15m")) as tab:
                badge = tab.locator(f".track[data-key='helpdesk/{WATCHED[0].evaluator}'] .badge")
                await expect(badge).to_have_text(text)


async def test_an_agreement_is_said_to_be_of_all_monitors(chromium: Chromium) -> None:
    """The cards of two monitors each showed the agreement of both as its own. A label's verdict has no threshold."""
    agreement = VerdictAgreement(20.0, Bounded(0.92, 0.82, 0.97), UNKNOWN, UNKNOWN, Confusion({("good", "good"): 20.0}))
    people = PeopleView(withheld="few", sums=AuditedSums(), agreements={"": agreement})
    several = [WATCHED[0], replace(WATCHED[0], monitor="shop")]
    for watched, text in (([WATCHED[0]], "people: same"), (several, "people, of all monitors: same")):
        views = {(each.monitor, each.evaluator): people for each in watched}
        async with showing(watched=watched, sources=Sources(people=lambda views=views: views)) as shown:
            turn = await shown.put_turn("c", "Is it open?", "Yes.")
            await shown.put(shown.judged(turn, 0.3))
            async with chromium.browsing(shown.url()) as tab:
                await expect(tab.locator(".agreement")).to_have_count(len(watched))
                await expect(tab.locator(".agreement").first).to_contain_text(f"agreement with {text} verdict 92 %")
                await expect(tab.locator("#rows .chip")).to_have_attribute("title", "does not pass")


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("few", "too few labels (effectively 29 of 30)"),
        ("undecided", "too few labels whose scores have a verdict"),
        ("weak", "the judge's verdicts say too little about people's"),
        ("drift", "newer labels differ from older ones"),
        ("", "too few audits"),
    ],
)
async def test_a_card_says_why_the_mean_by_people_is_withheld(chromium: Chromium, why: str, text: str) -> None:
    """Of too few labels in its monitor it was silent, below the number of labels of all monitors."""
    number, few = (
        29.9,
        VerdictAgreement(9.9, UNKNOWN, UNKNOWN, UNKNOWN, Confusion({("bad", "bad"): 9.9})),
    )  # not yet 30, not 10
    sums = AuditedSums(tuple(number if name in ("a", "a_a") else 0.0 for name in SUM_NAMES))
    view = PeopleView(withheld=why, sums=sums, correct_audits=True, agreements={"": few})
    key = WATCHED[0].monitor, WATCHED[0].evaluator
    async with showing(watched=WATCHED[:1], sources=Sources(people=lambda: {key: view})) as shown:
        turn = await shown.put_turn("c", "Is it open?", "Yes.")
        await shown.put(shown.judged(turn, 0.3))
        async with chromium.browsing(shown.url()) as tab:
            line = tab.locator(".track .corrected")
            await expect(line).to_have_text(f"–by people, last 7 days: withheld, {text}")
            await expect(tab.locator(".agreement")).to_contain_text("effectively 9 labels: too few to say")


async def test_a_badge_says_that_it_is_of_the_whole_if_segments_have_alerts_of_their_own(chromium: Chromium) -> None:
    """While Prometheus paged for one segment, the page that the alert links to said "above its target"."""
    configuration = ConfigurationView(number=1, since=0.0, by_segment=True)
    watched = [replace(WATCHED[0], target=0.1), *WATCHED[1:]]
    async with showing(watched=watched, sources=Sources(configuration=lambda: configuration)) as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url()) as tab:
            badge = tab.locator(f".track[data-key='helpdesk/{WATCHED[0].evaluator}'] .badge")
            await expect(badge).to_have_text("✓ above its target as a whole")
            other = tab.locator(f".track[data-key='helpdesk/{WATCHED[1].evaluator}'] .badge")
            await expect(other).not_to_contain_text("as a whole")  # it has no target, so no segment of it alerts


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390)])
async def test_the_target_is_drawn_and_an_alert_is_one_sentence(chromium: Chromium, scheme: str, width: int) -> None:
    watched = [replace(WATCHED[0], target=0.9), *WATCHED[1:]]
    async with showing(watched=watched, sources=Sources(alerts=lambda: [ALERT])) as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url(), scheme=scheme, width=width) as tab:
            await expect(tab.locator(".plot .target")).to_have_count(1)
            badge = tab.locator(f".track[data-key='helpdesk/{WATCHED[0].evaluator}'] .badge")
            await expect(badge).to_have_text("▼ below its target")  # and not above its threshold, under an alert
            assert await tab.locator(".mark.aim").inner_text() == "target 0.9"
            details = tab.locator("#alerts details")
            assert not await details.evaluate("each => each.open")
            if folder := os.environ.get("EVALSTREAM_SHOTS"):
                await tab.screenshot(path=Path(folder) / f"page-{scheme}-{width}.png")
            await details.locator("summary").click()
            await expect(tab.locator("#alerts .cause")).to_be_visible()
        async with chromium.browsing(shown.url("queue"), scheme=scheme, width=width) as tab:
            await expect(tab.locator("#ask")).to_be_visible()
            if folder := os.environ.get("EVALSTREAM_SHOTS"):
                await tab.screenshot(path=Path(folder) / f"queue-{scheme}-{width}.png")
