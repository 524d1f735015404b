"""The cases of `peers.py`: what each library is given, and which known difference explains it where they disagree.

Plain data, for it is read in two Python environments. `tokens` are those of the judge's answer, each with its text and
its alternatives by probability.
"""

from __future__ import annotations

from typing import Any

HEAD = ['{"reason": "fine", "score":', {}]
END = ["}", {}]
GAP = [" ", {}]


def _weighed(name: str, *tokens: list[Any], known: str = "", **extra: Any) -> dict[str, Any]:
    return {"name": name, "kind": "g_eval", "tokens": list(tokens), "known": known, **extra}


def _said(name: str, text: str, known: str = "", **extra: Any) -> dict[str, Any]:
    return {"name": name, "kind": "g_eval", "text": text, "known": known, **extra}


RANGE_UNCHECKED = "deepeval checks no range: neither of the score nor of the alternatives (deepeval#1929, #2155)"
TOKEN_BY_TEXT = (
    "deepeval looks for a token equal to the score's text: ' 8', '8.0', '1'+'0' are not found (deepeval#3000)"
)
NOT_ITS_OWN = "deepeval trusts alternatives that are not the token's own (openai-python#2227, opik#1635)"
ANY_MASS = "deepeval renormalises whatever little mass it kept, and drops what is below 1 %"
BOTH_GIVEN = "deepeval takes criteria beside steps and ignores them silently"
FORWARDS = "deepeval's conversational copy scans tokens forwards: a digit in the reason counts (deepeval#3108)"
FIXED_SCALE = "deepeval's conversational copy divides by 10 whatever the rubric's range (deepeval#3113)"
ZERO_GUARD = "deepeval's conversational copy divides by zero when no token is kept (deepeval#3108)"
CLAMPED = "uipath clamps what the judge says: 9999 is a perfect score (uipath-python#1819)"
ERROR_IS_0 = "uipath turns every error into a score of 0.0, which its means count"
EMPTY_RULE = "uipath scores '= 0' with no calls at all as 0, by its rule for empty traces"
FIRST_FIT = "uipath lets extra arguments pass in both of its modes"

G_EVAL = [
    _weighed("certain", HEAD, GAP, ["8", {"8": 1.0}], END),
    _weighed("torn between 7 and 8", HEAD, GAP, ["8", {"8": 0.6, "7": 0.4}], END),
    _weighed(
        "the reason holds the digit",
        ['{"reason": "', {}],
        ["8", {"8": 0.1, "2": 0.9}],
        [' of them", "score": ', {}],
        ["8", {"8": 0.5, "9": 0.5}],
        END,
    ),
    _weighed(
        "alternative off the scale",
        HEAD,
        GAP,
        ["7", {"7": 0.5, "8": 0.3, "20": 0.1, "9": 0.05}],
        END,
        known=RANGE_UNCHECKED,
    ),
    _weighed("space in the token", HEAD, [" 7", {" 7": 0.6, " 8": 0.4}], END, known=TOKEN_BY_TEXT),
    _weighed(
        "10 in two tokens",
        HEAD,
        GAP,
        ["1", {"1": 0.8, "9": 0.2}],
        ["0", {"0": 0.75, "}": 0.25}],
        END,
        known=TOKEN_BY_TEXT,
    ),
    _weighed("8.0", HEAD, GAP, ["8", {"8": 0.5, "6": 0.5}], [".0", {}], END, known=TOKEN_BY_TEXT),
    _weighed("forced token", HEAD, GAP, ["8", {"7": 0.9, "6": 0.1}], END, known=NOT_ITS_OWN),
    _weighed("little mass on numbers", HEAD, GAP, ["8", {"8": 0.3, "6": 0.1, "good": 0.6}], END, known=ANY_MASS),
    _said("no probabilities", '{"reason": "fine", "score": 8}'),
    _said("trailing comma", '{"reason": "fine", "score": 8,}'),
    _said("code fence", '```json\n{"reason": "fine", "score": 8}\n```'),
    _said("85 on 0 to 10", '{"reason": "fine", "score": 85}', RANGE_UNCHECKED),
    _said("0.9 on 0 to 10", '{"reason": "fine", "score": 0.9}', RANGE_UNCHECKED),
    _said("prose", "I would give this a nine."),
    _said("rubric 1 to 5", '{"reason": "fine", "score": 5}', rubric=[1, 5]),
    _said("strict", '{"reason": "fine", "score": 1}', strict=True),
    _said("criteria beside steps", '{"reason": "fine", "score": 8}', BOTH_GIVEN, criteria="Be right."),
]

CONVERSATION = [
    {**case, "kind": "conversational_g_eval", "name": f"conversation: {case['name']}", "known": known}
    for case, known in [
        (G_EVAL[1], ""),
        (G_EVAL[2], FORWARDS),
        (G_EVAL[8], ANY_MASS),
        (_weighed("no token above 1 %", HEAD, GAP, ["8", {"good": 0.995, "8": 0.005}], END), ZERO_GUARD),
        (G_EVAL[15], FIXED_SCALE),
    ]
]


def _output(kind: str, name: str, actual: Any, expected: Any, known: str = "", **extra: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "actual": actual, "expected": expected, "known": known, **extra}


def _tools(kind: str, name: str, called: list[Any], expected: Any, known: str = "", **extra: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "called": called, "expected": expected, "known": known, **extra}


OUTPUTS = [
    _output("exact_match", "equal objects", {"a": 1, "b": "x"}, {"b": "x", "a": 1}),
    _output("exact_match", "different objects", {"a": 1}, {"a": 2}),
    _output("json_similarity", "numbers", {"a": 8}, {"a": 10}),
    _output("json_similarity", "texts", {"a": "sitting"}, {"a": "kitten"}),
    _output("json_similarity", "missing and nested", {"a": 1, "b": 5}, {"a": 1, "b": {"c": 2, "d": 3}}),
    _output("json_similarity", "lists", {"a": [1, 2]}, {"a": [1, 2, 3]}),
    _output("json_similarity", "zero and beyond", {"a": 0, "z": 9}, {"a": 0}),
    _output("llm_judge", "80 of 100", {"answer": "Paris"}, {"answer": "It is Paris"}, judged=80),
    _output("llm_judge", "9999 of 100", {"answer": "Paris"}, {"answer": "It is Paris"}, CLAMPED, judged=9999),
    _output(
        "llm_judge",
        "the part is missing",
        {"other": "Paris"},
        {"answer": "Paris"},
        ERROR_IS_0,
        judged=80,
        target="answer",
    ),
    _tools("tool_order", "one between", ["a", "x", "b"], ["a", "b"]),
    _tools("tool_order", "reversed", ["c", "b", "a"], ["a", "b", "c"]),
    _tools("tool_order", "strict", ["a", "x", "b"], ["a", "b"], strict=True),
    _tools("tool_order", "none called", [], ["a"]),
    _tools("tool_count", "two of two", ["a", "a", "b"], {"a": [">=", 2], "b": ["=", 1]}),
    _tools("tool_count", "none wanted, none called", [], {"a": ["=", 0]}, EMPTY_RULE),
    _tools("tool_args", "equal", [["a", {"x": 1}]], [["a", {"x": 1}]]),
    _tools("tool_args", "different", [["a", {"x": 2}]], [["a", {"x": 1}]]),
    _tools("tool_args", "one more argument", [["a", {"x": 1, "y": 2}]], [["a", {"x": 1}]], FIRST_FIT),
]

DEEPEVAL = [*G_EVAL, *CONVERSATION]
UIPATH = OUTPUTS
