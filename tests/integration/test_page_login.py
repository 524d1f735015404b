"""Who may see the page: tokens, the cookie given for one, and what other sites can and cannot do with it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from chromium import browsing, need_chromium
from pydantic import SecretStr
from shown import Shown, showing

from collector.config.loading import check
from collector.errors import ConfigError
from collector.page.server import COOKIE, SESSION, Login
from collector.receive.access import AuthSettings, BearerTokens
from collector.service.app import running

TOKEN, OTHER = "a-token-of-the-page-1", "a-token-of-the-page-2"
PATHS = ("api/overview", "api/changes", "api/evaluations", "assets/main.js", "assets/login.html")


def tokens(*texts: str) -> BearerTokens:
    return BearerTokens(AuthSettings(tokens=tuple(map(SecretStr, texts))), "page")


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def shown(clock: Clock) -> AsyncIterator[Shown]:
    async with showing(door=Login(tokens(TOKEN, OTHER), clock=clock)) as each:
        turn = await each.put_turn("visit-1", "Are you open?", "No.")
        await each.put(each.judged(turn, 0.2))
        await each.until_listed(1)
        yield each


async def ask(shown: Shown, path: str, method: str = "GET", **options: Any) -> tuple[int, str, Any]:
    options = {"allow_redirects": False} | options
    async with aiohttp.ClientSession() as session, session.request(method, shown.url(path), **options) as response:
        return response.status, "" if response.status == 200 else await response.text(), response.headers


async def log_in(shown: Shown, token: str = TOKEN, **headers: str) -> tuple[int, str, Any]:
    return await ask(shown, "login", "POST", data={"token": token}, headers=headers)


async def cookie_of(shown: Shown, token: str = TOKEN) -> str:
    status, _, headers = await log_in(shown, token)
    assert status == 303
    return headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize("path", PATHS)
async def test_without_a_token_nothing_is_shown(shown: Shown, path: str) -> None:
    for sent in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}=1.2"}, {"Cookie": f"{COOKIE}=é"}):
        status, body, headers = await ask(shown, path, headers=sent)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "open" not in body


@pytest.mark.parametrize("path", PATHS)
async def test_programs_show_a_token_in_a_header(shown: Shown, path: str) -> None:
    assert (await ask(shown, path, headers={"Authorization": f"Bearer {OTHER}"}))[0] == 200


async def test_who_opens_the_page_is_asked_for_a_token_and_gets_a_cookie_for_it(shown: Shown) -> None:
    status, body, headers = await ask(shown, "?monitor=helpdesk")
    assert status == 401
    assert "<form" in body
    assert "form-action 'self'" in headers["Content-Security-Policy"]
    for needed in ("assets/base.css", "assets/icon.svg"):
        assert (await ask(shown, needed))[0] == 200
    status, _, headers = await log_in(shown)
    assert (status, headers["Location"]) == (303, "./")
    for said in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION}"):
        assert said in headers["Set-Cookie"]
    assert TOKEN not in headers["Set-Cookie"]
    for path in ("", *PATHS):
        assert (await ask(shown, path, headers={"Cookie": headers["Set-Cookie"].partition(";")[0]}))[0] == 200


async def test_over_tls_alone_the_cookie_is_for_tls_alone() -> None:
    async with showing(door=Login(tokens(TOKEN), secure=True)) as shown:
        assert "; Secure" in (await log_in(shown))[2]["Set-Cookie"]


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "x", "é", "\x00"])
async def test_a_wrong_token_gets_a_sentence_and_no_cookie(shown: Shown, token: str) -> None:
    status, body, headers = await log_in(shown, token)
    assert status == 401
    assert "this token is not known" in body
    assert "Set-Cookie" not in headers


async def test_a_cookie_ends_and_cannot_be_made_longer(shown: Shown, clock: Clock) -> None:
    cookie = await cookie_of(shown)
    ends, _, signature = cookie.partition("=")[2].partition(".")
    longer = f"{COOKIE}={int(ends) + 1}.{signature}"
    assert (await ask(shown, "api/overview", headers={"Cookie": longer}))[0] == 401
    clock.now += SESSION - 5
    assert (await ask(shown, "api/overview", headers={"Cookie": cookie}))[0] == 200
    clock.now += 10
    assert (await ask(shown, "api/overview", headers={"Cookie": cookie}))[0] == 401


async def test_a_cookie_ends_with_its_token_and_no_other(shown: Shown) -> None:
    first, second = await cookie_of(shown, TOKEN), await cookie_of(shown, OTHER)
    async with showing(door=Login(tokens(OTHER))) as after:
        assert (await ask(after, "api/overview", headers={"Cookie": first}))[0] == 401
        assert (await ask(after, "api/overview", headers={"Cookie": second}))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "http://127.0.0.1:{port}"}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
async def test_with_a_cookie_only_the_page_itself_can_label(shown: Shown, headers: dict[str, str], status: int) -> None:
    (listed,) = shown.page.view
    path = f"api/evaluations/{listed.evaluation.evaluation_id}/labels"
    sent = {name: value.format(port=shown.port) for name, value in headers.items()}
    sent["Cookie"] = await cookie_of(shown)
    assert (await ask(shown, path, "POST", json={"opinion": "agree"}, headers=sent))[0] == status
    assert len(await shown.labels()) == (status == 201)


async def test_another_site_cannot_sign_somebody_in(shown: Shown) -> None:
    assert (await log_in(shown, Origin="http://evil.example"))[0] == 403
    assert (await ask(shown, "login", "POST", json={"token": TOKEN}))[0] == 415
    status, _, headers = await ask(shown, "login")
    assert (status, headers["Location"]) == (303, "./")


async def test_in_a_browser(shown: Shown) -> None:
    need_chromium()
    async with browsing(shown.url(), ready="#token", allow="401") as tab:
        await tab.fill("#token", "a-wrong-token-of-the-page")
        await tab.click("button[type=submit]")
        await tab.wait_for_selector("#problem:has-text('not known')")
        await tab.fill("#token", TOKEN)
        await tab.click("button[type=submit]")
        await tab.wait_for_selector("#rows a")
        await tab.click("#rows a")
        await tab.click("label:has(input[value=agree])")
        await tab.click("text=Save label")
        await tab.wait_for_selector(".labelling .status:has-text('Saved')")
        assert await tab.evaluate("document.cookie") == ""
    assert [label.opinion for label in await shown.labels()] == ["agree"]


PAGE = {"evaluators": {"e": {"kind": "exact_match"}}, "monitors": {"m": {"evaluators": ["e"]}}}


def test_beyond_this_machine_the_page_needs_a_token_or_a_word() -> None:
    with pytest.raises(ConfigError, match=r"page\.host: 0\.0\.0\.0 is reachable from other machines"):
        check({**PAGE, "page": {"host": "0.0.0.0"}}, "test")
    auth = {"tokens": [TOKEN]}
    for open_to_some in (
        {"page": {"host": "0.0.0.0", "auth": auth}},
        {"page": {"host": "0.0.0.0", "insecure": True}},
        {"page": {"host": "0.0.0.0"}, "receive": {"otlp_http": {"auth": auth}}},
        {"page": {}},
    ):
        check({**PAGE, **open_to_some}, "test")


async def test_the_service_opens_its_page_to_the_tokens_of_senders() -> None:
    config = check(
        {
            **PAGE,
            "log": {"kind": "memory"},
            "receive": {"otlp_http": {"port": 0, "auth": {"tokens": [TOKEN]}}},
            "export": {"prometheus": {"port": 0}},
            "page": {"port": 0},
        },
        "test",
    )
    async with running(config) as service, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{service.page_port}/api/overview"
        for token, status in ((TOKEN, 200), (OTHER, 401)):
            async with session.get(url, headers={"Authorization": f"Bearer {token}"}) as response:
                assert response.status == status


def test_the_pages_own_tokens_go_before_those_of_senders() -> None:
    both = {"page": {"auth": {"tokens": [TOKEN]}}, "receive": {"otlp_http": {"auth": {"tokens": [OTHER]}}}}
    found = check({**PAGE, **both}, "test").settings.page_auth
    assert found is not None
    assert [each.get_secret_value() for each in found.tokens] == [TOKEN]
    senders = check({**PAGE, **both, "page": {}}, "test").settings.page_auth
    assert senders is not None
    assert [each.get_secret_value() for each in senders.tokens] == [OTHER]
