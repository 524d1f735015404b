"""Applications with the instrumentations that people use, against the demo: their conversation appears, judged."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from chromium import Chromium

pytestmark = pytest.mark.asyncio(loop_scope="session")  # where the browser runs

APPLICATIONS = Path(__file__).parents[1] / "e2e" / "applications"
ANSWER = "Penguins keep warm by dense feathers, a layer of fat, and by standing close together."
CAPTURE = {
    "openinference_app.py": {},
    "openai_v2_app.py": {
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    },
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OTEL_"))}


@asynccontextmanager
async def model() -> AsyncIterator[str]:
    """A server like OpenAI's, whose model knows one thing."""

    async def complete(_request: web.Request) -> web.Response:
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 12, "completion_tokens": 17, "total_tokens": 29}
        return web.json_response(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "zoo-1",
                "choices": [choice],
                "usage": usage,
            }
        )

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}/v1"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def demo() -> AsyncIterator[tuple[str, str]]:
    """`evalstream demo`; gives the addresses of OTLP/HTTP and of the page, as it prints them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "collector.cli", "demo", "--port", "0", "--metrics-port", "0", "--page-port", "0",
        stdout=asyncio.subprocess.PIPE, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            said = await process.stdout.readline() + await process.stdout.readline()
        otlp = re.search(rb"OTLP on (\S+)", said)
        page = re.search(rb"page: (http://\S+/)", said)
        assert otlp, said
        assert page, said
        yield otlp[1].decode(), page[1].decode()
    finally:
        process.terminate()
        await process.wait()


async def run_application(name: str, endpoint: str, model_url: str) -> None:
    environment = {
        **ENVIRONMENT,
        **CAPTURE[name],
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_SERVICE_NAME": "zoo",
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "none",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, str(APPLICATIONS / name), env=environment)
    async with asyncio.timeout(60):
        assert await process.wait() == 0


@pytest.mark.parametrize("name", CAPTURE)
async def test_a_conversation_appears_on_the_page_judged_within_seconds(chromium: Chromium, name: str) -> None:
    assert len((APPLICATIONS / name).read_text().split("\n\n")[-1].splitlines()) <= 10
    async with demo() as (otlp, page), model() as model_url, chromium.browsing(f"{page}?q=penguins&range=5m") as tab:
        await run_application(name, otlp, model_url)
        sent = time.monotonic()
        await tab.locator("#rows a", has_text="answers_question").click()
        waited = time.monotonic() - sent
        await tab.wait_for_selector(".talk")
        assert "How do penguins keep warm?" in await tab.locator(".said[data-role=user]").inner_text()
        assert ANSWER in await tab.locator(".said[data-role=application]").inner_text()
        assert float(await tab.locator(".verdict .chip").evaluate("each => each.firstChild.textContent")) > 0
        assert "zoo-1" in await tab.locator(".talk").inner_text()
        assert waited < 6, f"{waited:.1f} s"
