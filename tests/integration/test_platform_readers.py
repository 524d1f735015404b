"""What goes to other platforms is read back by their own SDKs: once, with its value, label, reason and place.

The platforms are stubs that keep what they get as their APIs say (`platform_stores.py`); each SDK comes from its package.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import SPAN, TRACE, of_conversation, scored
from hashed_env import hashed_python
from platform_stores import PROJECT, BraintrustStore, LangfuseStore, LangSmithStore, OpikStore, WeaveStore
from platform_stub import OPIK_SPAN, PlatformStub

from collector import plugins
from collector.export.exporter import ExportContext
from collector.telemetry.registry import Telemetry

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

CONVERSATION = of_conversation().subject.conversation_id
LAST = of_conversation().subject.span_id or ""
LAST_TRACE = of_conversation().subject.trace_id or ""
SCORE = 0.8333333333333334
TURN = replace(scored(), score=SCORE)
EVALUATIONS = [TURN, of_conversation(4)]
BOTH = sorted(each.evaluation_id for each in EVALUATIONS)
AS_UUIDS = [f"{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{each[20:]}" for each in BOTH]


async def _read_back(name: str, store: Any, code: str, *arguments: str, **settings: Any) -> Any:
    """What the SDK reads of the evaluations, which were exported twice: what the code prints as JSON."""
    python = hashed_python(Path(__file__).with_name("readers.txt"))
    if python is None:
        pytest.skip("the libraries cannot be installed here")
    stub = PlatformStub(respond=store.respond)
    if isinstance(store, BraintrustStore):
        store.address = lambda: stub.endpoint
    async with stub.serve():
        plugin = plugins.load(plugins.EXPORTERS, name)
        context = ExportContext(telemetry=Telemetry(), page="https://e.org")
        async with plugin.open(plugin.Settings(endpoint=stub.endpoint, **settings), context) as exporter:
            for _ in range(2):
                assert await exporter.export(EVALUATIONS) == 0
        return await asyncio.to_thread(_run, python, code, stub.endpoint, TRACE, SPAN, *arguments)


def _run(python: Path, code: str, *arguments: str) -> Any:
    quiet = {
        "OPIK_SENTRY_ENABLE": "false",
        "OPIK_ANALYTICS_ENABLED": "false",
        "WEAVE_SENTRY_ENV": "off",
        "HOME": "/nowhere",
    }
    environment = {"PATH": os.environ["PATH"], **quiet}
    done = subprocess.run(
        [python, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


LANGFUSE = """
import json, sys
from langfuse import Langfuse
address, trace, span = sys.argv[1:]
client = Langfuse(public_key="pk", secret_key="sk", base_url=address, tracing_enabled=False)

def scores(**place):
    cursor = None
    while True:
        page = client.api.scores.get_many(fields="details,subject", limit=1, cursor=cursor, **place)
        yield from page.data
        cursor = page.meta.cursor
        if cursor is None:
            return

def known(score):
    subject = score.subject
    return [score.id, score.name, score.value, score.comment, score.subject.id, score.metadata["evalstream.url"]]

turn = [known(each) for each in scores(trace_id=trace, observation_id=span)]
session = [known(each) for each in scores(session_id="visit-7")]
print(json.dumps([turn, session]))
"""


async def test_langfuse() -> None:
    """By pages of one, as its cursor gives them: the number with its reason, and the label as a score beside it."""
    turn, session = await _read_back("langfuse", LangfuseStore(), LANGFUSE, public_key="pk", secret_key="sk")
    first, last = (f"https://e.org/?evaluation={each}" for each in BOTH)
    assert turn == [
        [BOTH[0], "answers_question", SCORE, "It names the price.", SPAN, first],
        [f"{BOTH[0]}-label", "answers_question.label", "good", None, SPAN, first],
    ]
    assert [each[:3] for each in session] == [
        [BOTH[1], "answers_question", 0.75],
        [f"{BOTH[1]}-label", "answers_question.label", "good"],
    ]
    assert {each[4] for each in session} == {"visit-7"}
    assert {each[5] for each in session} == {last}


LANGSMITH = """
import json, sys
from langsmith import Client
from langsmith.integrations.otel import langsmith_run_id_from_otel_span_id
address, trace, span, last, project = sys.argv[1:]
client = Client(api_url=address, api_key="key", auto_batch_tracing=False)
run, run_of_last = (langsmith_run_id_from_otel_span_id(int(each, 16)) for each in (span, last))
read = list(client.list_feedback(run_ids=[run, run_of_last]))
assert [each.run_id for each in read] == [run, run_of_last]
assert client.read_feedback(read[0].id) == read[0]
own = client.create_feedback(key="answers_question", run_id=run, session_id=project, score=0.8333333333333334)
known = client.read_feedback(own.id)
kind = [known.run_id == read[0].run_id, known.session_id == read[0].session_id, known.score == read[0].score]
print(json.dumps([[[str(e.id), e.key, e.score, e.value, e.comment, e.feedback_source.type,
                    e.feedback_source.metadata["evalstream.url"]] for e in read], kind]))
"""


async def test_langsmith() -> None:
    """On the run that its own function makes of the span, in a deployment that finds no run without its project; as
    its own `create_feedback` places and rounds a score."""
    store = LangSmithStore()
    read, like_its_own = await _read_back(
        "langsmith", store, LANGSMITH, LAST, PROJECT, api_key="key", project_id=PROJECT
    )
    urls = [f"https://e.org/?evaluation={each}" for each in BOTH]
    assert read == [
        [own_id, "answers_question", score, "good", "It names the price.", "model", url]
        for own_id, score, url in zip(AS_UUIDS, (0.8333, 0.75), urls, strict=True)
    ]
    assert like_its_own == [True, True, True]


OPIK = """
import json, sys
import opik
from datetime import datetime, timezone
address, trace, span, name = sys.argv[1:]
client = opik.Opik(host=address, project_name="desk", workspace="shop", api_key="key")
known = lambda scores: [[each.name, each.value, each.category_name, each.reason, each.source] for each in scores]
read = [known(client.get_span_content(name).feedback_scores)]
read += [known(each.feedback_scores) for each in client.search_spans(project_name="desk")]
read += [known(each.feedback_scores) for each in client.search_threads(project_name="desk")]
chosen = json.dumps(
    [{"field": "id", "operator": "ends_with", "value": name[-17:], "type": "string"}], separators=(",", ":")
)
client.rest_client.spans.get_spans_by_project(
    project_name="desk", filters=chosen, from_time=datetime(2026, 5, 1, tzinfo=timezone.utc), size=1, truncate=True
)
print(json.dumps(read))
"""


async def test_opik() -> None:
    """By the span's content, by a search of spans, and of threads."""
    store = OpikStore()
    read = await _read_back("opik", store, OPIK, OPIK_SPAN, project="desk", workspace="shop", api_key="key")
    first, last = (f"It names the price.\nhttps://e.org/?evaluation={each}" for each in BOTH)
    turn = [["answers_question", SCORE, "good", first, "sdk"]]
    assert read == [turn, turn, [["answers_question", 0.75, "good", last, "sdk"]]]
    ours, again, its_own = store.looked_up
    assert ours == again == {**its_own, "from_time": ours["from_time"]}
    assert ours["from_time"].endswith("Z") == its_own["from_time"].endswith("Z")


WEAVE = """
import json, sys
from weave.trace.context.weave_client_context import set_weave_client_global
from weave.trace.feedback import RefFeedbackQuery
from weave.trace.refs import CallRef
from weave.trace.weave_client import WeaveClient
from weave.trace_server_bindings.remote_http_trace_server import RemoteHTTPTraceServer
address, trace, span, last = sys.argv[1:]
client = WeaveClient("shop", "desk", RemoteHTTPTraceServer(address, password="key"), ensure_project_exists=False)
set_weave_client_global(client)
known = lambda each: [each.id, each.feedback_type, each.payload, each.weave_ref]
read = [[known(each) for each in RefFeedbackQuery(CallRef("shop", "desk", of).uri)] for of in (span, last)]
assert [known(each) for each in client.get_feedback(read[0][0][0])] == read[0]
print(json.dumps(read))
"""


async def test_weave() -> None:
    """By the call's ref, as `call.feedback` asks, and by its id."""
    [[turn], [conversation]] = await _read_back("weave", WeaveStore(), WEAVE, LAST, api_key="key", project="shop/desk")
    assert turn[:2] == [AS_UUIDS[0], "evalstream.answers_question"]
    known = {"score": SCORE, "label": "good", "passed": True, "explanation": "It names the price."}
    assert known.items() <= turn[2].items()
    assert turn[3] == f"weave:///shop/desk/call/{SPAN}"
    assert conversation[0] == AS_UUIDS[1]
    assert conversation[2]["conversation_id"] == "visit-7"


WEAVE_AGENTS = (
    WEAVE[: WEAVE.index("read = [[")]
    + """
places = [client.get_agent_span_feedback(span), client.get_agent_conversation_feedback(last)]
print(json.dumps([[known(each) for each in place] for place in places]))
"""
)


async def test_weaves_view_of_agents() -> None:
    """There spans and conversations are subjects, as `client.get_agent_span_feedback` and its like ask."""
    settings = {"api_key": "key", "project": "shop/desk", "view": "agents"}
    [[turn], [conversation]] = await _read_back("weave", WeaveStore(), WEAVE_AGENTS, CONVERSATION, **settings)
    assert (turn[0], turn[2]["score"]) == (AS_UUIDS[0], SCORE)
    assert turn[3] == f"weave:///shop/desk/agent_span/{SPAN}"
    assert (conversation[0], conversation[2]["score"]) == (AS_UUIDS[1], 0.75)


BRAINTRUST = """
import asyncio, json, sys
from braintrust.logger import BraintrustState
from braintrust.trace import LocalTrace
address, trace, span, last = sys.argv[1:]
state = BraintrustState()
state.login(app_url=address, api_key="key")
scores = []
for each in (trace, last):
    read = LocalTrace("project_logs", "p-1", each, None, state)
    scores += asyncio.run(read.get_spans(filters={"span_type": ["score"]}, include_scorers=True))
    assert asyncio.run(read.get_spans()) == [], "a scorer would take scores for the application's spans"
print(json.dumps([[e.span_id, e.span_parents, e.scores, e.output, e.span_attributes["name"], e.metadata["evalstream.url"]]
                  for e in scores]))
"""


async def test_braintrust() -> None:
    """As a scorer reads the spans of a trace, where those of scorers are left out unless they are asked for."""
    store = BraintrustStore()
    turn, conversation = await _read_back("braintrust", store, BRAINTRUST, LAST_TRACE, api_key="key", project_id="p-1")
    output = {"score": SCORE, "label": "good", "reason": "It names the price."}
    url = f"https://e.org/?evaluation={BOTH[0]}"
    assert turn == [BOTH[0], [SPAN], {"answers_question": SCORE}, output, "answers_question", url]
    assert conversation[:3] == [BOTH[1], [LAST], {"answers_question": 0.75}]
