"""What goes to other platforms is what their own SDKs take it for: read by their types, of their packages."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import of_conversation, scored
from hashed_env import hashed_python
from platform_stub import PlatformStub, opik_or_empty

from collector import plugins
from collector.export.exporter import ExportContext
from collector.telemetry.registry import Telemetry

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

SETTINGS: dict[str, dict[str, Any]] = {
    "langfuse": {"public_key": "pk", "secret_key": "sk"},
    "langsmith": {"api_key": "key"},
    "opik": {"project": "desk"},
    "weave": {"api_key": "key", "project": "shop/desk"},
}

READ = """
import json, sys
from langfuse.api import CreateScoreRequest
from langfuse.api.core.pydantic_utilities import parse_obj_as
from langsmith.schemas import FeedbackCreate
from opik.rest_api.types.feedback_score_batch_item import FeedbackScoreBatchItem
from opik.rest_api.types.feedback_score_batch_item_thread import FeedbackScoreBatchItemThread
from weave.vendor.weave_server_sdk.types import feedback_create_params

for name, path, body in json.load(sys.stdin):
    if name == "langfuse":
        known = [parse_obj_as(CreateScoreRequest, each) for each in body]
        assert [each.observation_id is None for each in known] == [False, False, True, True], known
        assert not any(each.model_extra for each in known), known
    elif name == "langsmith":
        known = FeedbackCreate.model_validate({"trace_id": None, **body})  # ours is left out
        assert known.key == "answers_question" and known.score == 0.75
        assert set(body) <= set(FeedbackCreate.model_fields), body
    elif name == "opik":
        of = FeedbackScoreBatchItemThread if "threads" in path else FeedbackScoreBatchItem
        for each in body["scores"]:
            known = of.model_validate(each)
            assert known.name == "answers_question" and not known.model_extra, known
    else:
        wanted = feedback_create_params.FeedbackCreateParams
        assert set(wanted.__required_keys__) <= set(body) <= set(wanted.__annotations__), body
print("read")
"""


@pytest.fixture
async def stub() -> AsyncIterator[PlatformStub]:
    made = PlatformStub(respond=opik_or_empty)
    async with made.serve():
        yield made


async def test_sdks_read_what_goes_out(stub: PlatformStub) -> None:
    python = hashed_python(Path(__file__).with_name("readers.txt"))
    if python is None:
        pytest.skip("the libraries cannot be installed here")
    sent: list[tuple[str, str, Any]] = []
    for name, settings in SETTINGS.items():
        plugin = plugins.load(plugins.EXPORTERS, name)
        opened = plugin.open(
            plugin.Settings(endpoint=stub.endpoint, **settings),
            ExportContext(telemetry=Telemetry(), page="https://e.org"),
        )
        async with opened as exporter:
            assert await exporter.export([scored(), of_conversation(4)]) == 0
        sent += [(name, each.path, each.body) for each in stub.posts]
        stub.calls.clear()
    result = await asyncio.to_thread(_read, python, json.dumps(sent))
    assert result.stdout == "read\n", result.stderr[-3000:]


def _read(python: Path, sent: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", READ], input=sent, capture_output=True, text=True, check=False)
