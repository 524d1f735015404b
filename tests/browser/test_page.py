"""The page in a real browser."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from playwright.async_api import expect
from shown import WATCHED, a_busy_hour, showing

from collector.config.alerts import AlertSettings
from collector.page.settings import PageSettings, TraceLinkSettings
from collector.page.sources import (
    AlertView,
    BudgetView,
    ConfigurationView,
    DropView,
    ReleaseView,
    Sources,
    Traffic,
    TrafficView,
    not_evaluated,
)
from collector.service.page import with_links
from evaluators.results import Retry

pytestmark = pytest.mark.asyncio(loop_scope="session")  # where the browser runs

PICTURES = Path(__file__).parents[2] / "deploy" / "pictures"
HOSTILE = (
    '<img src=x onerror="window.broken = 1"><script>window.broken = 1</script>'
    "</div><a href='javascript:window.broken=1'>x</a> {{7*7}} \u202egnp.exe \x00"
)


async def test_shows_monitors_evaluations_and_figures_without_an_error(chromium: Chromium) -> None:
    async with showing() as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "It depends.")
        await shown.put(shown.judged(turn, 0.1), shown.judged(turn, None, evaluator="grounded"))
        await shown.until_listed(2)
        async with chromium.browsing(shown.url()) as tab:
            assert await tab.locator(".track h3").all_inner_texts() == ["answers_question", "grounded"]
            assert await tab.locator("#rows a").count() == 2
            assert "Are you open on Sunday?" in await tab.locator("#rows a").first.inner_text()
            assert await tab.locator("#live").inner_text() == "live"
            assert "judge timeout" in await tab.locator("#funnel").inner_text()


async def test_shows_new_evaluations_by_itself(chromium: Chromium) -> None:
    async with showing() as shown, chromium.browsing(shown.url()) as tab:
        assert await tab.locator("#nothing").is_visible()
        turn = await shown.put_turn("visit-1", "Do you rent cargo bikes?", "Yes, for 60 euros.")
        await shown.put(shown.judged(turn, 0.9))
        await tab.wait_for_selector("#rows a:has-text('Do you rent cargo bikes?')")
        await tab.wait_for_selector(".track[data-key='helpdesk/answers_question'] .big:has-text('0.90')")


async def test_rejudged_scores_are_of_traffic_until_a_time(chromium: Chromium) -> None:
    """The last live evaluation ended before its version existed, as a rejudged score is at the time of its subject."""
    async with showing() as shown:
        now = shown.judged(await shown.put_turn("visit-1", "Are you open on Sunday?", "No."), 0.4)
        await shown.put(now)
        await shown.until_listed(1)
        async with chromium.browsing(shown.url()) as tab:
            await tab.wait_for_selector(".counts:has-text('last live evaluation ended')")
            past = shown.judged(await shown.put_turn("visit-2", "Do you rent bikes?", "Yes."), 0.9)
            await shown.put(replace(past, happened_at=past.ended_at))
            await tab.wait_for_selector(".counts:has-text('scores of traffic until')")
            assert await tab.locator(".counts:has-text('last live evaluation ended')").count() == 0
            await shown.put(shown.judged(await shown.put_turn("visit-3", "Is it open?", "Yes."), 0.5))
            await tab.wait_for_selector(".counts:has-text('last live evaluation ended')")


async def test_the_card_says_which_mean_each_bound_would_be(chromium: Chromium) -> None:
    """ "with 0 or 1 for failures, for skips …" was understood at the second reading."""
    async with showing() as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "No.")
        await shown.put(shown.judged(turn, 0.4), shown.judged(turn, None))
        await shown.until_listed(2)
        async with chromium.browsing(shown.url()) as tab:
            await tab.wait_for_selector(
                ".counts:has-text('the mean would be 0.20 if each failure, skip (over_budget, shed, incomplete) and part "
                "that judges were not shown had scored 0, and 0.70 if each had scored 1')"
            )


async def test_figures_that_round_to_an_end_do_not_claim_it(chromium: Chromium) -> None:
    """The page had `kappa 0.42 (-0.00 to 0.71)`, and `same verdict 100 %` for 216 of 217."""
    async with showing() as shown, chromium.browsing(shown.url()) as tab:
        text = await tab.evaluate(
            """async () => {
                const { score, percent, margin } = await import(new URL("format.js", document.querySelector("script[src]").src));
                return [
                    ...[-0.001, -0.3, 0.42].map(score), ...[216 / 217, 1, 0, 0.0004, 0.42, 1e-9, 1.5].map(percent),
                    margin({ mean: 0.2, interval: [-0.001, 0.7] }),
                ];
            }"""
        )
    assert text[:3] == ["0.00", "-0.30", "0.42"]
    assert text[3:10] == ["99.5 %", "100 %", "0 %", "0.04 %", "42 %", "0 %", "150 %"]
    assert text[10] == "(95 %: 0.00 to 0.70)"


async def test_the_list_stays_still_while_somebody_reads_in_it(chromium: Chromium) -> None:
    async with showing() as shown:
        first = await shown.put_turn("visit-1", "the first question", "An answer.")
        await shown.put(shown.judged(first, 0.4))
        await shown.until_listed(1)
        async with chromium.browsing(shown.url()) as tab:
            await tab.hover("#rows a")
            worse = await shown.put_turn("visit-2", "a worse one", "No answer.")
            await shown.put(shown.judged(worse, 0.0))
            await tab.wait_for_selector("#fresh[data-shown=yes]:has-text('1 new')")
            assert await tab.locator("#rows a").count() == 1
            await tab.click("#fresh")
            assert "a worse one" in await tab.locator("#rows a").first.inner_text()


async def test_opens_a_conversation_as_the_user_saw_it_with_all_that_is_known_of_the_score(chromium: Chromium) -> None:
    settings = PageSettings(trace_link=TraceLinkSettings(kind="jaeger", url="http://127.0.0.1:16686"))
    async with showing(settings) as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url("?evaluator=answers_question")) as tab:
            await tab.locator("#rows a").first.click()
            await tab.wait_for_selector(".talk")
            detail = await tab.locator("#detail").inner_text()
            for text in (
                "Hello!", "judged turn", "Retrieved 1 passage", "find_page", "The judge's reason", "logprobs", "judge-1",
                "abababababababab", "25 %: stands for 4 like it", "$0.0020", "410 in, 38 out, 1 calls",
            ):  # fmt: skip
                assert text in detail, text
            assert await tab.locator(".masses b").all_inner_texts() == ["0", "1", "2"]
            link = await tab.locator("a.trace").get_attribute("href")
            assert re.fullmatch(r"http://127\.0\.0\.1:16686/trace/[0-9a-f]{32}\?uiFind=[0-9a-f]{16}", link or "")
            asked = await tab.locator(".turn[data-judged] .said[data-role=user]").inner_text()
            assert asked.splitlines()[-1] in await tab.locator("#rows a[aria-current]").inner_text()


async def test_a_label_is_given_and_lies_in_the_log_with_the_judges_score_beside_it(chromium: Chromium) -> None:
    async with showing() as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "No, on Sunday we are closed.")
        judged = shown.judged(turn, 0.2)
        await shown.put(judged)
        await shown.until_listed(1)
        async with chromium.browsing(shown.url(f"?evaluation={judged.evaluation_id}")) as tab:
            await tab.click(".labelling button")
            assert "Say agree or disagree" in await tab.locator(".labelling .status").inner_text()
            await tab.click(".choice:has-text('Disagree')")
            await tab.fill("input[name=score]", "0.9")
            await tab.fill("textarea[name=note]", "It is right: <b>closed</b>.")
            await tab.fill("input[name=by]", "ada")
            await tab.click(".labelling button")
            await tab.wait_for_selector(".labelling .status:has-text('by ada')")
            await tab.wait_for_selector("#rows .opinion:has-text('✗')")
            await tab.reload()
            await tab.wait_for_selector(".labelling .status:has-text('by ada')")
            assert await tab.input_value("textarea[name=note]") == "It is right: <b>closed</b>."
        (label,) = await shown.labels()
        assert (label.opinion, label.score, label.given_by) == ("disagree", 0.9, "ada")
        assert (label.evaluation_id, label.judge_score, label.judge_passed) == (judged.evaluation_id, 0.2, False)
        assert label.sampling.probability == 0.25


async def test_a_failure_is_made_again_at_the_press_of_a_button(chromium: Chromium) -> None:
    async with showing() as shown:
        failure = shown.judged(await shown.put_turn("visit-1", "Are you open on Sunday?", "No."), None)
        await shown.put(failure)
        await shown.until_listed(1)
        async with chromium.browsing(shown.url(f"?evaluation={failure.evaluation_id}")) as tab:
            await tab.click("button:has-text('Make it again')")
            await tab.wait_for_selector(".again .status:has-text('Requested')")
            await tab.reload()
            await tab.wait_for_selector(".again button:disabled")
            new = replace(
                shown.judged(await shown.put_turn("visit-2", "And on Monday?", "Yes."), 0.9),
                supersedes=(failure.evaluation_id,),
                retry=Retry(attempt=2, reason="judge_timeout"),
            )
            await shown.put(new)
            await shown.until_listed(2)
            await tab.reload()
            await tab.click("a:has-text('open the new evaluation')")
            await tab.wait_for_selector(".facts :text('2; the one before: judge_timeout')")


async def test_hostile_text_is_only_text(chromium: Chromium) -> None:
    async with showing() as shown:
        turn = await shown.put_turn(
            f"visit {HOSTILE}", HOSTILE, HOSTILE, retrieval_context=(HOSTILE,), system_prompt=HOSTILE, error=HOSTILE
        )
        await shown.put(
            shown.judged(turn, 0.1, explanation=HOSTILE, evaluator=HOSTILE[:40], details={"masses": {HOSTILE: 1}})
        )
        await shown.until_listed(1)
        async with chromium.browsing(shown.url()) as tab:
            await tab.locator("#rows a").first.click()
            await tab.wait_for_selector(".talk")
            assert '<img src=x onerror="window.broken = 1">' in await tab.locator(".said[data-role=user]").inner_text()
            assert await tab.locator("#detail img, #detail script, #rows img, a[href^=javascript]").count() == 0
            assert await tab.evaluate("window.broken") is None


async def test_everything_can_be_done_by_keyboard(chromium: Chromium) -> None:
    async with showing() as shown:
        for number in range(4):
            turn = await shown.put_turn(f"visit-{number}", f"question {number}", "An answer.")
            await shown.put(shown.judged(turn, number / 10))
        await shown.until_listed(4)
        async with chromium.browsing(shown.url()) as tab:
            press = tab.page.keyboard.press
            await press("j")
            await tab.wait_for_selector("#detail:has-text('question 0') .talk")
            await press("j")
            await tab.wait_for_selector("#detail:has-text('question 1') .talk")
            await press("k")
            await tab.wait_for_selector("#detail:has-text('question 0') .talk")
            await press("a")
            assert await tab.is_checked("input[value=agree]")
            await press("s")
            await tab.page.keyboard.type("1")
            await press("Enter")
            await tab.wait_for_selector(".labelling .status:has-text('Saved')")
            await press("Escape")
            await press("Escape")
            await tab.wait_for_selector("body:not([data-open])")
            assert await tab.evaluate("document.activeElement.dataset.id") is not None
            await press("/")
            await tab.page.keyboard.type("question 3")
            await expect(tab.locator("#rows a")).to_have_count(1)
            assert "q=question+3" in tab.url
            await press("Escape")
            await press("?")
            assert await tab.locator("#keys").is_visible()
        assert [label.score for label in await shown.labels()] == [1.0]


async def test_the_address_holds_the_filters_and_what_is_open(chromium: Chromium) -> None:
    async with showing() as shown:
        good = await shown.put_turn("visit-1", "a good one", "Yes.")
        bad = await shown.put_turn("visit-2", "a bad one", "No.")
        await shown.put(shown.judged(good, 0.9), shown.judged(bad, 0.1), shown.judged(bad, 0.2, evaluator="grounded"))
        await shown.until_listed(3)
        async with chromium.browsing(shown.url()) as tab:
            await tab.select_option("select[name=evaluator]", "answers_question")
            await tab.select_option("select[name=outcome]", "missed")
            await tab.click("#ranges button[value='6h']")
            await expect(tab.locator("#rows a")).to_have_count(1)
            await tab.locator("#rows a").first.click()
            await tab.wait_for_selector(".talk")
            address = tab.url
            for part in ("evaluator=answers_question", "outcome=missed", "range=6h", "evaluation="):
                assert part in address
            await tab.go_back()
            await tab.wait_for_selector("body:not([data-open])")
        async with chromium.browsing(address) as tab:
            await tab.wait_for_selector("#detail:has-text('a bad one') .talk")
            assert await tab.locator("#rows a").count() == 1


async def test_text_that_is_hidden_does_not_reach_the_browser(chromium: Chromium) -> None:
    async with showing(PageSettings(show_text=False)) as shown:
        turn = await shown.put_turn("visit-1", "a secret question", "a secret answer")
        judged = shown.judged(turn, 0.1, explanation="the secret is told")
        await shown.put(judged)
        await shown.until_listed(1)
        async with chromium.browsing(shown.url(f"?evaluation={judged.evaluation_id}")) as tab:
            await tab.wait_for_selector("#detail:has-text('Texts are hidden here')")
            assert "secret" not in await tab.content()
            for path in ("overview", "evaluations?q=secret", f"evaluations/{judged.evaluation_id}"):
                answer = await tab.page.request.get(shown.url(f"api/{path}"))
                assert answer.ok
                assert "secret" not in await answer.text()


async def test_on_a_phone_nothing_is_wider_than_the_screen_and_an_evaluation_covers_it(chromium: Chromium) -> None:
    async with showing() as shown:
        await a_busy_hour(shown)
        long = await shown.put_turn("x" * 300, "y" * 3000, "z" * 3000)
        await shown.put(shown.judged(long, 0.0, explanation="w" * 3000))
        async with chromium.browsing(shown.url(), width=360, height=740, touch=True) as tab:
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not await tab.evaluate(wide)
            assert await tab.evaluate(SCROLL_WITHIN) == [], "the page is what scrolls"
            await tab.locator("#rows a").first.tap()
            await tab.wait_for_selector(".talk")
            box = await tab.locator("#detail").bounding_box()
            assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 360, 740)
            assert not await tab.evaluate(wide)
            assert await tab.evaluate("document.querySelector('#detail').scrollWidth <= 360")
            await tab.click("#detail .close")
            assert not await tab.locator("#detail").is_visible()


async def test_it_opens_on_15_minutes_while_all_scores_are_younger(chromium: Chromium) -> None:
    async with showing() as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "It depends.")
        await shown.put(shown.judged(turn, 0.1))
        await shown.until_listed(1)
        async with chromium.browsing(shown.url()) as tab:
            pressed = tab.locator("#ranges button[aria-pressed=true]")
            await expect(pressed).to_have_text("15 min")
            assert "range" not in tab.url
            await tab.click("#ranges button[value='6h']")
            await expect(pressed).to_have_text("6 h")
            assert "range=6h" in tab.url
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url()) as tab:
            await expect(tab.locator("#ranges button[aria-pressed=true]")).to_have_text("1 h")


async def test_releases_and_changes_of_versions_are_marks_on_the_curve(chromium: Chromium) -> None:
    release = ReleaseView(
        monitor="helpdesk", evaluator="answers_question", attribute="service_version", within="shop", baseline="1.41",
        version="1.42", started=time.time() - 1200, means=(0.8, 0.7), conversations=(99.0, 99.0), difference=None,
        low=None, high=None, method=None, state="waiting",
    )  # fmt: skip
    async with showing(sources=Sources(releases=lambda: [release])) as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url()) as tab:
            marks = tab.locator(".track[data-key='helpdesk/answers_question'] .moment.release")
            assert (await marks.get_attribute("title") or "").startswith("r: release 1.42 at ")
            assert await tab.locator(".moment.release").count() == 1
            assert "release 1.42 at" in await tab.locator(".track[data-key='helpdesk/answers_question']").inner_text()


async def test_nothing_moves_while_it_updates(chromium: Chromium) -> None:
    async with showing() as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url()) as tab:
            places = "['#tracks', '#funnel', '#cost', '#rows', '#detail'].map(s => document.querySelector(s).getBoundingClientRect().top)"
            before = await tab.evaluate(places)
            await tab.hover("#rows a")
            for number in range(3):
                turn = await shown.put_turn(f"late-{number}", "one more", "Yes.")
                await shown.put(shown.judged(turn, 0.0))
            await tab.wait_for_selector("#fresh[data-shown=yes]:has-text('3 new')")
            assert await tab.evaluate(places) == before


async def test_alerts_budgets_dead_letters_and_traffic_are_shown_where_there_are_some(chromium: Chromium) -> None:
    sources = Sources(
        alerts=lambda: [AlertView(name="QualityDropped", monitor="helpdesk", evaluator="grounded", summary="Mean fell by 0.2.", since=1.0)],
        budgets=lambda: [
            BudgetView(period="day", limit_usd=10.0, spent_usd=8.5),
            BudgetView(monitor="helpdesk", period="hour", limit_usd=6.0, spent_usd=None),
        ],
        configuration=lambda: ConfigurationView(number=3, since=time.time() - 60.0),
        dead_letters=lambda: [DropView(stage="assemble", reason="too_large", count=3)],
        traffic=lambda: Traffic([TrafficView(monitor="helpdesk", counts={"sampled": 40, "sampled_out": 360})]),
    )  # fmt: skip
    async with showing(sources=sources) as shown, chromium.browsing(shown.url()) as tab:
        assert "Mean fell by 0.2." in await tab.locator("#alerts").inner_text()
        cost = await tab.locator("#cost").inner_text()
        assert "$8.50 of $10.00 in the last day" in cost
        assert "helpdesk: how much of the budget of $6.00 was spent in the last hour is not known yet" in cost
        assert (await tab.locator("#monitors-note").inner_text()).startswith("configuration 3 since ")
        assert "3 at assemble: too large" in await tab.locator("#dead").inner_text()
        assert "400 turns matched" in await tab.locator("#funnel").inner_text()


@pytest.mark.parametrize(
    ("traffic", "text"),
    [
        (Traffic([TrafficView(monitor="helpdesk", counts={"sampled": 1})]), ""),
        (
            Traffic([TrafficView(monitor="helpdesk", counts={"sampled": 0}, evaluations={"grounded": {"resumed": 2}})]),
            "2 evaluations were resumed: another process counted their turns",
        ),
        (
            Traffic(unknown="This process evaluates 2 of 6 partitions."),
            (
                "Not known here: how many turns matched and were sampled, and how many evaluations wait. "
                "This process evaluates 2 of 6 partitions. Each process counts its own turns; their sum in Prometheus: "
                "sum by (monitor, outcome) (evalstream_turns_total)"
            ),
        ),
    ],
)
async def test_the_traffic_says_what_it_lacks_only_if_it_lacks_something(
    chromium: Chromium, traffic: Traffic, text: str
) -> None:
    """New users looked for turns that the page "may have left out", though it had all."""
    async with showing(sources=Sources(traffic=lambda: traffic)) as shown, chromium.browsing(shown.url()) as tab:
        assert "\n".join(await tab.locator("#funnel p.what").all_inner_texts()) == text


async def test_alerts_that_are_not_evaluated_yet_are_a_line_and_the_traffic_has_its_second(chromium: Chromium) -> None:
    """The page of a restarted service showed no alert for a minute, and rounded the start of its counts down."""
    sources = Sources(alerts=lambda: [not_evaluated("Score alerts", 60.0)])
    async with showing(sources=sources) as shown, chromium.browsing(shown.url()) as tab:
        line = await tab.locator("#alerts .alert[data-severity=info]").inner_text()
        assert " ".join(line.split()) == (
            "Score alerts not evaluated since the start; one that fires is here in about 60 s"
        )
        assert re.match(r"since \d\d:\d\d:\d\d, ", await tab.locator("#funnel-note").inner_text())
        if folder := os.environ.get("SHOTS"):
            await tab.screenshot(path=f"{folder}/not-yet.png")


async def test_traffic_and_cost_say_that_they_are_of_all_versions_as_the_scores_are_of_one(chromium: Chromium) -> None:
    async with showing(watched=[replace(WATCHED[0], versions=("now",))]) as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "It depends.")
        old, new = shown.judged(turn, 0.1, ago=60.0), shown.judged(turn, 0.9)
        await shown.put(
            replace(old, evaluator_version="before", cost_usd=0.25), replace(new, evaluator_version="now", cost_usd=0.5)
        )
        await shown.until_listed(2)
        async with chromium.browsing(shown.url()) as tab:
            assert "1 score of 1 conversation" in await tab.locator(".track .counts").first.inner_text()
            assert ", all versions" in await tab.locator("#cost").inner_text()
            assert "$0.75" in await tab.locator("#cost").inner_text()
            assert (await tab.locator("#funnel-note").inner_text()).endswith(", all versions")
            if folder := os.environ.get("SHOTS"):
                await tab.screenshot(path=f"{folder}/desktop.png", full_page=True)
                await tab.set_viewport_size({"width": 390, "height": 844})
                await tab.screenshot(path=f"{folder}/phone.png", full_page=True)


async def test_an_alert_leads_to_its_evaluations_its_runbook_and_its_dashboard(chromium: Chromium) -> None:
    alerts = AlertSettings(runbooks="http://127.0.0.1:1/books", dashboards="http://127.0.0.1:2/grafana")
    about = AlertView(name="QualityDropped", monitor="helpdesk", evaluator="grounded", summary="Mean fell by 0.2.")
    judge = AlertView(name="EvalstreamJudgeUnavailable", summary="judge main is unavailable")
    sources = Sources(alerts=lambda: [with_links(each, alerts) for each in (about, judge)])
    async with showing(sources=sources) as shown:
        turn = await shown.put_turn("visit-1", "Are you open on Sunday?", "It depends.")
        await shown.put(shown.judged(turn, 0.1), shown.judged(turn, 0.2, evaluator="grounded"))
        await shown.until_listed(2)
        async with chromium.browsing(shown.url()) as tab:
            boxes = tab.locator("#alerts .alert")
            assert await boxes.nth(0).locator("a[target=_blank]").evaluate_all(
                "all => all.map((each) => each.href)"
            ) == [
                "http://127.0.0.1:1/books/QualityDropped.md",
                "http://127.0.0.1:2/grafana/d/evalstream-quality?from=now-24h&to=now&var-monitor=helpdesk&var-evaluator=grounded",
            ]
            assert await boxes.nth(1).locator("a").evaluate_all("all => all.map((each) => each.href)") == [
                "http://127.0.0.1:1/books/EvalstreamJudgeUnavailable.md",
                "http://127.0.0.1:2/grafana/d/evalstream-plumbing?from=now-24h&to=now",
            ]
            await boxes.nth(0).locator("a.tag").click()
            await expect(tab.locator("#rows a")).to_have_count(1)
            assert tab.url.endswith("?monitor=helpdesk&evaluator=grounded")
            assert await tab.evaluate(CONTRAST) == []
    nowhere = with_links(about, AlertSettings())
    assert (nowhere.runbook, nowhere.dashboard) == (None, None), "a path is no address"


async def test_a_version_is_found_by_the_search_and_shown_with_its_environment(chromium: Chromium) -> None:
    async with showing() as shown:
        for version in ("1.41", "1.42"):
            turn = await shown.put_turn(f"visit-{version}", f"asked of {version}", "Yes.")
            attributes = {"service": "shop", "model": "m-7", "service_version": version, "environment": "canary"}
            await shown.put(shown.judged(turn, 0.9, attributes=attributes))
        await shown.until_listed(2)
        async with chromium.browsing(shown.url()) as tab:
            for wanted, count in (("service=shop", 2), ("m-7", 2), ("service_version=1.42", 1)):
                await tab.fill("#filters input[name=q]", wanted)
                await expect(tab.locator("#rows a")).to_have_count(count)
            await tab.locator("#rows a").click()
            facts = await tab.locator("#detail .facts").inner_text()
            for text in ("service version\n1.42", "environment\ncanary", "service\nshop", "model\nm-7"):
                assert text in re.sub(r"\s*\n\s*", "\n", facts), facts


async def test_releases_are_shown_with_their_intervals(chromium: Chromium) -> None:
    known: dict[str, Any] = {
        "monitor": "helpdesk", "evaluator": "grounded", "attribute": "service_version", "within": "shop",
        "baseline": "1.41", "started": time.time() - 7200, "means": (0.81, 0.74), "conversations": (961.2, 402.0),
    }  # fmt: skip
    worse = ReleaseView(
        **known, version="1.42", difference=-0.071, low=-0.112, high=-0.03, method="in the same hours", state="worse",
        lost=(0.01, 0.12),
    )  # fmt: skip
    waiting = ReleaseView(**known, version="1.43", difference=None, low=None, high=None, method=None, state="waiting")
    pair = replace(waiting, attribute="lang", within="", baseline="en", version="de", beside=True)
    async with showing(sources=Sources(releases=lambda: [worse, waiting, pair])) as shown:
        for width in (1360, 400):
            async with chromium.browsing(shown.url(), width=width) as tab:
                first, second, third = await tab.locator("#releases tbody tr").all_inner_texts()
                for text in (
                    "1.42",
                    "after 1.41",
                    "service version of shop",
                    "effectively 961 conversations",
                    "−0.071",
                    "worse",
                ):
                    assert text in first, first
                assert "−0.112 to −0.030, in the same hours" in first
                assert "12 % of its cases have no score, 1 % before" in first
                assert "too few scores" in second
                assert "de beside en" in third, "two values that ran together: neither came after the other"
                narrowest = (
                    "Math.min(...[...document.querySelectorAll('#releases tbody th')].map((each) => each.clientWidth))"
                )
                assert await tab.evaluate(narrowest) > 150, "no column of single letters"
                assert await tab.evaluate(CONTRAST) == []
                assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    async with showing(sources=Sources(releases=list)) as shown, chromium.browsing(shown.url()) as tab:
        assert not await tab.locator("#releases").is_visible()


SCROLL_WITHIN = """[...document.querySelectorAll('main *')].filter((each) => each.checkVisibility() &&
    ['auto', 'scroll'].includes(getComputedStyle(each).overflowY) && each.scrollHeight > each.clientHeight + 1)
    .map((each) => each.id || each.className)"""
CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const solid = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (element) => { for (let each = element; each; each = each.parentElement) { const color = solid(getComputedStyle(each).backgroundColor); if (color[3] === 255) return color; } return [255, 255, 255, 255]; };
  const weak = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest('option, .hidden, .skip, svg, noscript')) continue;
    const [a, b] = [light(solid(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${element.className || element.tagName} ${element.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return weak;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_has_contrast_and_every_control_a_name(chromium: Chromium, scheme: str) -> None:
    async with showing() as shown:
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url(), scheme=scheme) as tab:
            await tab.locator("#rows a").first.click()
            await tab.wait_for_selector(".talk")
            assert await tab.evaluate(CONTRAST) == []
            nameless = """() => [...document.querySelectorAll('button, a, input, select, textarea')].filter((each) =>
                !each.textContent.trim() && !each.labels?.length && !each.getAttribute('aria-label')).map((each) => each.outerHTML)"""
            assert await tab.evaluate(nameless) == []


@pytest.mark.parametrize(("name", "scheme", "height"), [("page", "light", 1240), ("evaluation-dark", "dark", 940)])
async def test_pictures_of_it(chromium: Chromium, name: str, scheme: str, height: int, tmp_path: Path) -> None:
    """With EVALSTREAM_PICTURES set they take the place of those in the repository."""
    sources = Sources(
        budgets=lambda: [BudgetView(monitor="helpdesk", period="day", limit_usd=4.0, spent_usd=1.42)],
        traffic=lambda: Traffic([TrafficView(monitor="helpdesk", counts={"sampled": 360, "sampled_out": 1080})]),
    )
    async with showing(sources=sources) as shown:
        shown.page.view.started -= 3600
        await a_busy_hour(shown)
        async with chromium.browsing(shown.url("?evaluator=answers_question"), scheme=scheme, height=height) as tab:
            await tab.locator("#rows a").nth(2).click()
            await tab.wait_for_selector(".talk")
            await tab.evaluate("document.activeElement.blur()")
            if name != "page":
                await tab.evaluate("document.querySelector('#evaluations').scrollIntoView()")
                await tab.evaluate("document.querySelector('.talk').scrollIntoView({block: 'center'})")
                await tab.evaluate("document.querySelector('#evaluations').scrollIntoView()")
            folder = PICTURES if os.environ.get("EVALSTREAM_PICTURES") else tmp_path
            await tab.screenshot(path=folder / f"{name}.png")
        assert 20_000 < (folder / f"{name}.png").stat().st_size < 300_000
        assert (PICTURES / f"{name}.png").exists()
