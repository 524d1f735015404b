"""Side by side with DeepEval and UiPath: the same cases, the same answers of the same judge.

The peers live in an environment of their own, which nothing of ours depends on:

    uv venv --python 3.11 /tmp/peers
    uv pip install --python /tmp/peers/bin/python deepeval uipath
    .venv/bin/python tests/bench/peers.py /tmp/peers/bin/python

Prints a table. Where a result differs, the last column names the known difference. Exits with 1 if one is not known.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from peer_cases import DEEPEVAL, UIPATH
from peer_server import serve
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from evaluators import OpenAIJudge
from evaluators.cases import ToolCall
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Score, Skipped
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn

SAME = 1e-6


async def g_eval(case):
    fields = {"evaluation_steps": ["Look."], "strict_mode": case.get("strict", False)}
    if "criteria" in case:
        fields["criteria"] = case["criteria"]
    if "rubric" in case:
        fields["rubric"] = [{"score_range": case["rubric"], "expected_outcome": "any"}]
    if case["kind"] == "g_eval":
        fields["evaluation_params"] = ["input", "actual_output"]
    subject = a_turn("What?", "Paris.") if case["kind"] == "g_eval" else a_conversation(("What?", "Paris."))
    evaluator = load_evaluators()[case["kind"]](name="g", **fields)
    with serve(case) as base_url:
        async with OpenAIJudge("gpt-4o", base_url=base_url, api_key="key") as judge:
            return await evaluate(evaluator, subject, judge, now=a_moment)


async def output(case):
    kind, fields = case["kind"], {}
    turn = a_turn(actual_output=json.dumps(case.get("actual", {})), expected_output=json.dumps(case["expected"]))
    if kind == "llm_judge":
        fields["target_output_key"] = case.get("target", "*")
    if kind.startswith("tool_"):
        fields["compare"] = {"tool_order": "order", "tool_count": "count", "tool_args": "arguments"}[kind]
        fields["strict"] = case.get("strict", False)
        if kind == "tool_count":
            fields["counts"] = {name: f"{sign} {n}" for name, (sign, n) in case["expected"].items()}
            turn = a_turn(tools_called=calls(case["called"]))
        else:
            turn = a_turn(tools_called=calls(case["called"]), expected_tools=calls(case["expected"]))
        kind = "tool_calls"
    judge = ScriptedJudge({"reason": "r", "score": case.get("judged")})
    return await evaluate(load_evaluators()[kind](name="e", **fields), turn, judge, now=a_moment)


def calls(given):
    pairs = [(call, {}) if isinstance(call, str) else call for call in given]
    return tuple(ToolCall(name=name, arguments=arguments) for name, arguments in pairs)


async def ours(case):
    try:
        result = await (g_eval(case) if case["kind"].endswith("g_eval") else output(case))
    except ValidationError:
        return "configuration error"
    match result.outcome:
        case Score(value=value):
            return value
        case Failure(type=type_):
            return f"failed: {type_}"
        case Skipped(reason=reason):
            return f"skipped: {reason}"


def agree(mine, theirs):
    if isinstance(mine, str) or isinstance(theirs, str):
        return isinstance(mine, str) and isinstance(theirs, str)  # both give no score
    return abs(mine - theirs) < SAME


def shown(result):
    return result if isinstance(result, str) else f"{result:.4g}"


async def main(theirs):
    table = Table("case", "evalstream", "peer", "the peer says", "same", "known difference")
    unknown = 0
    for peer, cases in (("deepeval", DEEPEVAL), ("uipath", UIPATH)):
        for case in cases:
            name = case["name"] if peer == "deepeval" else f"{case['kind']}: {case['name']}"
            mine, other = await ours(case), theirs[peer][name]
            same = agree(mine, other)
            unknown += not same and not case["known"]
            table.add_row(name, shown(mine), peer, shown(other), "yes" if same else "no", "" if same else case["known"])
    Console(width=200).print(table)
    return 1 if unknown else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runner = str(Path(__file__).with_name("peer_runner.py"))
    done = subprocess.run([sys.argv[1], runner], capture_output=True, text=True, check=True)
    sys.exit(asyncio.run(main(json.loads(done.stdout))))
