"""Somebody else who sends a small trace every tenth of a second, in a process of its own, until SIGTERM.

Prints what became of it as JSON: how often which answer came, and how long the slowest took.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter

import aiohttp
from attacks import NEIGHBOUR, trace
from test_otlp_http import bearer

SLOWEST = 10.0
"""Seconds after which a request counts as not answered."""


async def send(url: str) -> None:
    answers: Counter[str] = Counter()
    slowest, number, end = 0.0, 0, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.3", 0), force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(SLOWEST)) as session:
        print("ready", flush=True)
        while not end.is_set():
            number += 1
            body = trace("Paris.", f"neighbour-{number}").SerializeToString()
            started = time.monotonic()
            try:
                async with session.post(f"{url}/v1/traces", data=body, headers=bearer(NEIGHBOUR)) as response:
                    answers[str(response.status)] += 1
            except (aiohttp.ClientError, TimeoutError) as error:
                answers[type(error).__name__] += 1
            slowest = max(slowest, time.monotonic() - started)
            await asyncio.sleep(0.1)
    print(json.dumps({"answers": answers, "slowest": slowest}), flush=True)


if __name__ == "__main__":
    asyncio.run(send(sys.argv[1]))
