"""A picture from OTLP to a judge that sees, through a running service: and what of it the logs hold."""

from __future__ import annotations

import base64
import json
import random
import time
from pathlib import Path
from typing import Any

from chat_server import rating, serving
from made_up import Trace, chat
from service import service, until_ledger

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(3).randbytes(6000)).decode()
LARGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(4).randbytes(700_000)).decode()


def asks(*urls: str) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]
    return chat("", "A kayak.", **{"gen_ai.input.messages": json.dumps(messages)})


def configuration(judge: str, stored: int, unseen: str = "judge") -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "1s", "allowed_lateness": "5s", "attachments": {"stored_bytes": stored}},
        "judges": {
            "seeing": {
                "model": "m", "base_url": judge, "sees": ["image"], "media": {"hosts": ["cdn.example.com"]},
            },
            "blind": {"model": "b", "base_url": judge},
        },
        "evaluators": {
            name: {"kind": "g_eval", "evaluation_steps": ["Is it right?"], "evaluation_params": ["input", "actual_output"], "judge": name}
            for name in ("seeing", "blind")
        },
        "monitors": {"all": {"evaluators": ["seeing", "blind"], "unseen_media": unseen}},
    }  # fmt: skip


async def test_a_judge_that_sees_is_shown_the_picture(tmp_path: Path) -> None:
    async with serving(lambda _body, _number: rating(7)) as judge:
        async with service(tmp_path, configuration(judge.base_url, 10_000)) as running:
            trace = Trace(start=time.time_ns())
            urls = (f"data:image/png;base64,{PNG}", f"data:image/png;base64,{LARGE}", "https://cdn.example.com/a.png")
            trace.span(1, "chat", asks(*urls, "https://169.254.169.254/latest"))
            assert await running.post("traces.pb", trace.spans.SerializeToString()) == 200
            ledger = {each.evaluator: each for each in await until_ledger(running, 2)}
            metrics = await running.metrics()
        asked = {body["model"]: body["messages"][-1]["content"] for body in judge.requests}
        shown = [each["image_url"]["url"] for each in asked["m"][1:]]
        assert shown == [urls[0], urls[2]]
        assert '"shown":false' in asked["m"][0]["text"]
        assert isinstance(asked["b"], str)
        assert "you cannot see" in asked["b"]
        assert [ledger[each].details["unseen_media"] for each in ("seeing", "blind")] == [2, 4]
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("evalstream.db*")))  # noqa: ASYNC240 - a test
    assert len(content) < 600_000  # the large picture alone is more
    assert LARGE[1000:1100].encode() not in content
    assert 'evalstream_media_omitted_total{source="otlp_http"} 1.0' in metrics


async def test_a_monitor_may_skip_what_its_judge_does_not_see(tmp_path: Path) -> None:
    async with serving(lambda _body, _number: rating(7)) as judge:
        async with service(tmp_path, configuration(judge.base_url, 10_000, "skip")) as running:
            trace = Trace(start=time.time_ns()).span(1, "chat", asks(f"data:image/png;base64,{PNG}"))
            assert await running.post("traces.pb", trace.spans.SerializeToString()) == 200
            ledger = {each.evaluator: each for each in await until_ledger(running, 2)}
            metrics = await running.metrics()
        assert (ledger["seeing"].outcome, ledger["blind"].outcome) == ("scored", "skipped")
        assert ledger["blind"].reason == "unseen_media: image"
        assert [body["model"] for body in judge.requests] == ["m"]
        assert 'reason="unseen_media"' in metrics
