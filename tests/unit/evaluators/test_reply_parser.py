import time
from typing import Literal

import pytest
from pydantic import ConfigDict

from evaluators.answers.reply_parser import LONGEST, parse_reply
from evaluators.errors import JudgeReplyInvalid
from evaluators.scale import Reply, Scale

TEN = Scale(0, 10).reply


class Verdicts(Reply):
    model_config = ConfigDict(frozen=True, extra="forbid")
    verdicts: tuple[Literal["yes", "no"], ...]


@pytest.mark.parametrize(
    "text",
    [
        '{"reason": "fine", "score": 7}',
        '\n  {"score": 7, "reason": "fine"}\n',
        '```json\n{"reason": "fine", "score": 7}\n```',
        '```\n{"reason": "fine", "score": 7}```',
        'Here is my verdict:\n{"reason": "fine", "score": 7}',
        'Sure.\n```json\n{"reason": "fine", "score": 7}\n```',
        '{"reason": "fine", "score": 7}\nHope this helps!',
        '<think>Perhaps {"reason": "?", "score": 2}? No.</think>\n{"reason": "fine", "score": 7}',
        '{"reason": "fine", "score": 7,}',
        '{"reason": "fine", "score": "7"}',
        '{"reason": "fine", "score": 7.0}',
        '{"reason": "fine", "score": 7}{"reason": "fine", "score": 7}',
    ],
)
def test_manners_of_judges(text):
    reply = parse_reply(text, TEN)
    assert (reply.reason, reply.score) == ("fine", 7)


def test_bad_escapes_and_raw_newlines():
    assert parse_reply('{"reason": "C:\\data\\new", "score": 3}', TEN).score == 3
    assert parse_reply('{"reason": "two\nlines", "score": 3}', TEN).reason == "two\nlines"


LEAKING = "the answer ends its thoughts with </think> {as if} nobody saw"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"reason": "{LEAKING}", "score": 2}}',
        f'```json\n{{"reason": "{LEAKING}", "score": 2}}\n```',
        f'Here is my verdict: {{"reason": "{LEAKING}", "score": 2}}',
        f'<think>It wrote </think>, hm.</think>{{"reason": "{LEAKING}", "score": 2}}',
        f'Perhaps {{"reason": "?", "score": 7}}?</think>{{"reason": "{LEAKING}", "score": 2}}',
        f'<think>It says </think>{{"reason": "x", "score": 10}}.</think>{{"reason": "{LEAKING}", "score": 2}}',
    ],
)
def test_a_reason_that_quotes_the_end_of_a_thought(text):
    assert (parse_reply(text, TEN).reason, parse_reply(text, TEN).score) == (LEAKING, 2)


@pytest.mark.parametrize(
    "text",
    ['{"reason": "a draft", "score": 7}. No.</think>', '<think>{"reason": "a draft", "score": 7}</think>I give up.'],
)
def test_a_draft_within_the_thoughts_is_no_verdict(text):
    with pytest.raises(JudgeReplyInvalid, match="no JSON object"):
        parse_reply(text, TEN)


def test_thoughts_of_nothing_but_braces_are_read_in_linear_time():
    text = '{"a":[' * 900 + "1," * 90_000 + "</think>" + '{"reason": "fine", "score": 7}'
    started = time.process_time()
    assert parse_reply(text, TEN).score == 7
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no JSON object"),
        ("I would give this a 9.", "no JSON object"),
        ("9", "no JSON object"),
        ("[9]", "no JSON object"),
        ("null", "no JSON object"),
        ('{"reason": "cut off", "score": 1', "does not end"),
        ('{"reason": "x", "score": 11}', "score: must be less than or equal to 10"),
        ('{"reason": "x", "score": -1}', "score: must be greater than or equal to 0"),
        ('{"reason": "x", "score": 7.5}', "score: must be a valid integer, got a number"),
        ('{"reason": "x", "score": "8/10"}', "score: must be a valid integer, unable to parse"),
        ('{"reason": "x", "score": true}', "score: value error"),
        ('{"reason": "x", "score": null}', "score: must be a valid integer"),
        ('{"reason": "x", "score": NaN}', "asked form|not valid JSON"),
        ('{"reason": "x", "score": Infinity}', "asked form|not valid JSON"),
        ('{"reason": "x"}', "score: missing"),
        ('{"score": 7}', "reason: missing"),
        ('{"reason": "x", "score": 7, "confidence": 1}', r"a key is not asked for \(asked: reason, score\)"),
        ('{"reason": "x", "score": 3, "score": 10}', "not valid JSON|asked form"),
        ('It wrote {"reason": "x", "score": 10} to fool me.', "middle of other text"),
        ('{"reason": "x", "score": 10} {"reason": "x", "score": 2}', "more than one"),
        ('{"reason": "x", "score": 10} but {"reason": "said "y"", "score": 2}', "more than one"),
        ('{"reason": "it says "score": 10, a lie", "score": 2}', "not valid JSON|asked form"),
        ("{" * 5000, "does not end"),
        ("{" * 5000 + "}" * 5000, "not valid JSON|asked form"),
        ('{"reason": "' + "x" * LONGEST + '", "score": 1}', "longer than"),
    ],
)
def test_what_is_no_verdict(text, what):
    with pytest.raises(JudgeReplyInvalid, match=what):
        parse_reply(text, TEN)


def test_errors_hold_nothing_of_the_answer():
    with pytest.raises(JudgeReplyInvalid) as caught:
        parse_reply('{"secret-key": "secret-value", "score": "secret-score", "reason": 5}', TEN)
    assert "secret" not in str(caught.value)


def test_lists_with_a_trailing_comma():
    assert parse_reply('{"verdicts": ["yes", "no",]}', Verdicts).verdicts == ("yes", "no")


def test_reason_comes_before_the_score():
    assert list(TEN.model_json_schema()["properties"]) == ["reason", "score"]
