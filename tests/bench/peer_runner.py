"""Runs DeepEval and UiPath on the cases. Started by `peers.py` with the Python of an environment that has both.

Prints one JSON object: results by library and name of case. A result is a number, or the name of an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import sys
from types import SimpleNamespace

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "ERROR_REPORTING": "NO", "DEEPEVAL_DISABLE_DOTENV": "1"}
logging.disable(logging.CRITICAL)

from peer_cases import DEEPEVAL, UIPATH  # noqa: E402 - the environment has to be set before anything is imported
from peer_server import serve  # noqa: E402


def deepeval(case, base_url):
    from deepeval.metrics import ConversationalGEval, GEval
    from deepeval.metrics.g_eval import Rubric
    from deepeval.models import GPTModel
    from deepeval.test_case import ConversationalTestCase, LLMTestCase, MultiTurnParams, SingleTurnParams, Turn

    options = {
        "name": "g",
        "evaluation_steps": ["Look."],
        "model": GPTModel(model="gpt-4o", api_key="key", base_url=base_url),
        "strict_mode": case.get("strict", False),
        "async_mode": False,
    }
    if "criteria" in case:
        options["criteria"] = case["criteria"]
    if "rubric" in case:
        options["rubric"] = [Rubric(score_range=tuple(case["rubric"]), expected_outcome="any")]
    if case["kind"] == "g_eval":
        metric = GEval(evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT], **options)
        test = LLMTestCase(input="What?", actual_output="Paris.")
    else:
        metric = ConversationalGEval(evaluation_params=[MultiTurnParams.CONTENT, MultiTurnParams.ROLE], **options)
        test = ConversationalTestCase(
            turns=[Turn(role="user", content="What?"), Turn(role="assistant", content="Paris.")]
        )
    metric.measure(test, _show_indicator=False)
    return metric.score


def uipath(case):
    from opentelemetry.sdk.trace import TracerProvider
    from uipath.eval import evaluators as all_of_them
    from uipath.eval.models import WorkloadExecution

    async def judge(**_request):
        call = SimpleNamespace(arguments={"score": case["judged"], "justification": "r"})
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(tool_calls=[call], content=""))])

    tracer = TracerProvider().get_tracer("peers")

    def span(call):
        name, arguments = (call, {}) if isinstance(call, str) else call
        started = tracer.start_span(name, attributes={"tool.name": name, "input.value": json.dumps(arguments)})
        started.end()
        return started

    kind, config = case["kind"], {"name": "e"}
    match kind:
        case "exact_match":
            cls, criteria = all_of_them.ExactMatchEvaluator, {"expected_output": case["expected"]}
        case "json_similarity":
            cls, criteria = all_of_them.JsonSimilarityEvaluator, {"expected_output": case["expected"]}
        case "llm_judge":
            cls, criteria = all_of_them.LLMJudgeOutputEvaluator, {"expected_output": case["expected"]}
            config |= {"model": "m", "target_output_key": case.get("target", "*")}
        case "tool_order":
            cls, criteria = all_of_them.ToolCallOrderEvaluator, {"tool_calls_order": case["expected"]}
            config |= {"strict": case.get("strict", False)}
        case "tool_count":
            cls, criteria = all_of_them.ToolCallCountEvaluator, {"tool_calls_count": case["expected"]}
        case "tool_args":
            calls = [{"name": name, "args": arguments} for name, arguments in case["expected"]]
            cls, criteria = all_of_them.ToolCallArgsEvaluator, {"tool_calls": calls}
    options = {"llm_service": judge} if kind == "llm_judge" else {}
    evaluator = cls(id="e", evaluatorConfig=config, **options)
    execution = WorkloadExecution(
        agent_input={},
        workload_output=case.get("actual", {}),
        workload_trace=[span(call) for call in case.get("called", [])],
    )
    result = asyncio.run(evaluator.validate_and_evaluate_criteria(execution, criteria))
    return float(result.score)


def outcome(run, *arguments):
    talk = io.StringIO()
    try:
        with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
            return run(*arguments)
    except Exception as error:  # every error of a peer is a result
        return type(error).__name__


def main():
    results = {"deepeval": {}, "uipath": {}}
    for case in DEEPEVAL:
        with serve(case) as base_url:
            results["deepeval"][case["name"]] = outcome(deepeval, case, base_url)
    for case in UIPATH:
        results["uipath"][case["kind"] + ": " + case["name"]] = outcome(uipath, case)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
