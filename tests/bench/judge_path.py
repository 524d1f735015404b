"""One judge call: prompt, request, parse, weighting, record. Beside it the same requests by bare aiohttp, and peers.

2,000 evaluations with g_eval, 64 in flight, against a local endpoint that takes 200 ms and gives as many alternatives for
each token as are asked for. CPU of this process per evaluation. The peers run in an environment of their own (`peers_env.py`), fewer
calls each, for they take long.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import httpx2
import orjson
import uvloop
from measured import Figure, arguments, beside
from openai import AsyncOpenAI
from peers_env import peers_python
from quick_judge import serving

from evaluators import GEval, OpenAIJudge
from evaluators.evaluation import evaluate
from evaluators.judges.client_connection import fast_http
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.testing import a_moment, a_turn

GROUP = "judge path"
NO_LIMITS = httpx2.Limits(max_connections=1000)
PEERS = ("openai", "deepeval", "pydantic-evals", "phoenix-evals")
TURN = a_turn("What is your refund policy? " * 20, "You have 30 days to get a full refund. " * 30)
EVALUATOR = GEval(
    name="g",
    evaluation_steps=["Compare what is asked with what is answered, point by point."] * 3,
    evaluation_params=["input", "actual_output"],
    threshold=0.5,
)
SEVEN = [EVALUATOR.model_copy(update={"name": name}) for name in "abcdefg"]
REQUEST = {
    "model": "m",
    "temperature": 0.0,
    "logprobs": True,
    "top_logprobs": 13,
    "messages": [{"role": "system", "content": "x" * 1500}, {"role": "user", "content": "x" * 2500}],
}
"""As long as what the evaluator sends, and with as many alternatives as it asks for."""


async def seconds(call: Callable[[], Awaitable[object]], calls: int, at_once: int) -> float:
    """CPU per call."""
    await asyncio.gather(*(call() for _ in range(at_once)))
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return (time.process_time() - started) / calls


async def measure(url: str, calls: int, repeats: int) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        OpenAIJudge("m", base_url=url, api_key="key") as judge,
        OpenAIJudge(
            "m", client=lambda: AsyncOpenAI(base_url=url, api_key="key", http_client=fast_http(limits=NO_LIMITS))
        ) as by_client,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        result = await evaluate(EVALUATOR, TURN, judge, now=a_moment)
        assert result.outcome.method == "logprobs", result.outcome
        body = orjson.dumps(REQUEST)

        async def bare() -> object:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                return orjson.loads(await response.read())

        async def whole() -> object:
            return await evaluate(EVALUATOR, TURN, judge, now=a_moment)

        async def through() -> object:
            return await evaluate(EVALUATOR, TURN, by_client, now=a_moment)

        results = await evaluate_pack(SEVEN, TURN, judge, now=a_moment)
        assert [each.outcome.method for each in results] == ["logprobs"] * 7, results

        async def packed() -> object:
            return await evaluate_pack(SEVEN, TURN, judge, now=a_moment)

        floors, works, packs, clients = [], [], [], []
        for _ in range(repeats):
            floors.append(await seconds(bare, calls, 64))
            works.append(await seconds(whole, calls, 64))
            clients.append(await seconds(through, calls // 4, 64))
            packs.append(await seconds(packed, calls // 7, 64) / 7)
    beside(
        GROUP, "g_eval with logprobs", "ms CPU", floors, works, 1e3, aim=1.5, note="floor: bare aiohttp and orjson"
    ).show()
    beside(
        GROUP, "g_eval through OpenAI's client", "ms CPU", floors, clients, 1e3, aim=3.0, note="the same floor"
    ).show()
    beside(
        GROUP, "an evaluation in a pack of seven", "ms CPU", floors, packs, 1e3, aim=0.4, note="of g_eval with logprobs"
    ).show()
    return floors


def peer(python: Path, name: str, url: str, calls: int, floor: float) -> None:
    script = Path(__file__).with_name("judge_peers.py")
    done = subprocess.run(
        [python, script, name, url, str(calls)], capture_output=True, text=True, check=False, timeout=240
    )
    if done.returncode:
        print(json.dumps({"left_out": f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr else 'failed'}"}))
        return
    found = json.loads(done.stdout.splitlines()[-1])
    times = tuple(each * 1e3 for each in found["seconds"])
    middle = sorted(times)[len(times) // 2]
    Figure(
        GROUP, f"peer: {found['name']}", "ms CPU", times, floor * 1e3, middle / (floor * 1e3), note=found["note"]
    ).show()


def main() -> None:
    given = arguments(__doc__ or "")
    calls, repeats = (40, 1) if given.smoke else (2000, 5 if given.long else 3)
    with serving(0.01 if given.smoke else 0.2) as url:
        floors = uvloop.run(measure(url, calls, repeats))
        python = None if given.smoke else peers_python()
        for name in PEERS if python else ():
            peer(python, name, url, 2000 if given.long else 192, sorted(floors)[len(floors) // 2])


if __name__ == "__main__":
    main()
