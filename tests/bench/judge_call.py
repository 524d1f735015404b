"""What one judge call costs in CPU: prompt, request, parse, weighting, record; against the same request with bare aiohttp.

    .venv/bin/python tests/bench/judge_call.py [--profile]

The server runs in a process of its own and gives an answer of about fifty tokens with twenty alternatives each. CPU is
that of this process, per call, with eight calls under way; the better of two rounds.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import multiprocessing
import pstats
import re
import sys
import time

import aiohttp
import orjson
import uvloop

from evaluators import GEval, OpenAIJudge
from evaluators.run import run
from evaluators.testing import a_moment, a_turn

CALLS, AT_ONCE = 1500, 8
REASON = "The answer says what was asked, names the period and the condition, and adds nothing that is wrong. " * 2
TURN = a_turn("What is your refund policy? " * 20, "You have 30 days to get a full refund. " * 30)
EVALUATOR = GEval(
    name="g",
    evaluation_steps=["Compare what is asked with what is answered, point by point."] * 3,
    evaluation_params=["input", "actual_output"],
    threshold=0.5,
)


def answer(logprobs):
    text = orjson.dumps({"reason": REASON.strip(), "score": 8}).decode()
    pieces = re.findall(r" ?\w+|\W", text)
    content = [_token(piece) for piece in pieces]
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, "refusal": None}}
    if logprobs:
        choice["logprobs"] = {"content": content, "refusal": None}
    usage = {"prompt_tokens": 700, "completion_tokens": len(pieces), "total_tokens": 700 + len(pieces)}
    return orjson.dumps({"id": "c", "model": "m", "system_fingerprint": "f", "choices": [choice], "usage": usage})


def _token(piece):
    others = [str(number) for number in range(11)] if piece.strip().isdigit() else [f"word{n}" for n in range(19)]
    top = [{"token": piece, "logprob": -0.5, "bytes": list(piece.encode())}]
    top += [
        {"token": each, "logprob": -4.0 - n, "bytes": list(each.encode())}
        for n, each in enumerate(others)
        if each != piece
    ]
    return {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": top[:20]}


def serve(port_of, logprobs):
    """Answers whatever it is asked, with as little work as possible."""
    body = answer(logprobs)
    response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def handle(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower()).group(1)))
                writer.write(response)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port_of.put((server.sockets[0].getsockname()[1], len(body)))
        await server.serve_forever()

    uvloop.run(main())


async def milliseconds(call):
    """CPU per call."""
    for _ in range(50):
        await call()
    left = iter(range(CALLS))

    async def worker():
        for _ in left:
            await call()

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return (time.process_time() - started) / CALLS * 1000


async def measure(port, size, profile):
    url = f"http://127.0.0.1:{port}/v1"
    async with OpenAIJudge("m", base_url=url, api_key="key") as judge, aiohttp.ClientSession() as session:
        result = await run(EVALUATOR, TURN, judge, now=a_moment)
        request = {"model": "m", "temperature": 0.0, "logprobs": True, "top_logprobs": 20, "messages": messages()}

        async def bare():
            async with session.post(f"{url}/chat/completions", data=orjson.dumps(request)) as response:
                return orjson.loads(await response.read())

        async def whole():
            return await run(EVALUATOR, TURN, judge, now=a_moment)

        floor = min([await milliseconds(bare) for _ in range(2)])
        ours = min([await milliseconds(whole) for _ in range(2)])
        print(
            f"{size:>7} B, {result.outcome.method:<8}: {ours:.2f} ms, bare aiohttp {floor:.2f} ms, {ours / floor:.1f} times"
        )
        if profile:
            with cProfile.Profile() as profiler:
                for _ in range(400):
                    await whole()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def messages():
    """As long as what the evaluator sends."""
    return [{"role": "system", "content": "x" * 1500}, {"role": "user", "content": "x" * 2500}]


def main():
    for logprobs in (False, True):
        port_of = multiprocessing.Queue()
        server = multiprocessing.Process(target=serve, args=(port_of, logprobs), daemon=True)
        server.start()
        uvloop.run(measure(*port_of.get(), "--profile" in sys.argv))
        server.terminate()


if __name__ == "__main__":
    main()
