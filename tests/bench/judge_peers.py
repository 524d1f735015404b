"""One peer's judge against an endpoint: `python judge_peers.py NAME URL CALLS`, with the Python of the peers' environment.

Prints JSON: CPU seconds per call, three times, 64 calls in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import logging
import os
import sys
import time
from importlib.metadata import version

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "ERROR_REPORTING": "NO", "DEEPEVAL_DISABLE_DOTENV": "1"}
os.environ |= {"OPENAI_API_KEY": "key"}
logging.disable(logging.CRITICAL)

QUESTION, ANSWER = "What is your refund policy? " * 20, "You have 30 days to get a full refund. " * 30
STEPS = ["Compare what is asked with what is answered, point by point."] * 3
TIMES = 3


def openai(url):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="key")
    messages = [{"role": "system", "content": "x" * 1500}, {"role": "user", "content": "x" * 2500}]

    async def call():
        made = await client.chat.completions.create(
            model="m", messages=messages, temperature=0, logprobs=True, top_logprobs=20
        )
        assert made.choices[0].logprobs.content

    return call, "the client alone, with logprobs: no prompt, no score"


def deepeval(url):
    from deepeval.metrics import GEval
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    model = GPTModel(model="gpt-4o", api_key="key", base_url=url)

    async def call():
        params = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]
        metric = GEval(name="g", evaluation_params=params, evaluation_steps=STEPS, model=model)
        await metric.a_measure(LLMTestCase(input=QUESTION, actual_output=ANSWER), _show_indicator=False)
        assert metric.score is not None

    return call, "GEval.a_measure, with logprobs"


def pydantic_evals(url):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_evals.evaluators.llm_as_a_judge import judge_input_output

    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="key"))

    async def call():
        graded = await judge_input_output(QUESTION, ANSWER, "\n".join(STEPS), model)
        assert graded.reason

    return call, "judge_input_output; it has no logprobs, so the answers are short"


def phoenix_evals(url):
    from phoenix.evals import LLM, create_classifier

    llm = LLM(provider="openai", model="gpt-4o", base_url=url, api_key="key", initial_per_second_request_rate=100_000)
    template = "\n".join(STEPS) + "\n\nQuestion: {input}\nAnswer: {output}"
    judge = create_classifier(name="g", prompt_template=template, llm=llm, choices={"good": 1.0, "bad": 0.0})

    async def call():
        scores = await judge.async_evaluate({"input": QUESTION, "output": ANSWER})
        assert scores[0].label

    return call, "create_classifier; it has no logprobs, so the answers are short"


PEERS = {
    "openai": (openai, "openai"),
    "deepeval": (deepeval, "deepeval"),
    "pydantic-evals": (pydantic_evals, "pydantic-evals"),
    "phoenix-evals": (phoenix_evals, "arize-phoenix-evals"),
}


async def measure(call, calls):
    await call()
    times = []
    for _ in range(TIMES):
        left = iter(range(calls))

        async def worker(left=left):
            for _ in left:
                await call()

        gc.collect()
        started = time.process_time()
        await asyncio.gather(*(worker() for _ in range(64)))
        times.append((time.process_time() - started) / calls)
    return times


def main():
    name, url, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    make, package = PEERS[name]
    with contextlib.redirect_stdout(io.StringIO()):
        call, note = make(url)
        times = asyncio.run(measure(call, calls))
    print(json.dumps({"name": f"{name} {version(package)}", "seconds": times, "note": note}))


if __name__ == "__main__":
    main()
