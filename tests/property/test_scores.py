"""What holds for every scale, every answer and every text."""

import contextlib
import math

import orjson
from hypothesis import assume, example, given, strategies as st

from evaluators.answers.expected_score import score_distribution
from evaluators.answers.quote_check import contains_quote
from evaluators.answers.reply_parser import parse_reply
from evaluators.asking.judge_input import cut, fit_both_ends
from evaluators.asking.prompt_isolation import sanitize, wrap_untrusted
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Prompt, Token
from evaluators.mechanisms.item_verdicts import ItemWindow, RatioSpec, score_ratio
from evaluators.mechanisms.scoring import ask_score
from evaluators.prompts import fill
from evaluators.scale import Scale
from evaluators.testing import ScriptedAnswer, ScriptedJudge
from evaluators.turn.json_similarity import likeness
from evaluators.turn.llm_judge_strict_json import score_of

scales = st.builds(lambda low, span: Scale(low, low + span), st.integers(-50, 200), st.integers(1, 200))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PROMPT = Prompt("Judge.", {"a": "b"})


@given(scales)
async def test_lowest_is_0_and_highest_is_1(scale):
    for raw, value in ((scale.lowest, 0.0), (scale.highest, 1.0)):
        for mode in ("single", "samples", "auto"):
            score = await ask_score(ScriptedJudge({"reason": "r", "score": raw}), PROMPT, scale, mode=mode)
            assert (score.value, score.raw_score) == (value, raw)


@given(scales, st.data())
def test_between_them_it_grows(scale, data):
    within = st.integers(scale.lowest, scale.highest)
    less, more = sorted((data.draw(within), data.draw(within)))
    assert 0.0 <= scale.normalize(less) <= scale.normalize(more) <= 1.0
    assert less == more or scale.normalize(less) < scale.normalize(more)


@given(scales, st.integers() | st.floats() | st.text() | st.booleans() | st.none())
async def test_off_the_scale_there_is_no_score(scale, raw):
    on_it = isinstance(raw, int | float) and not isinstance(raw, bool) and scale.lowest <= raw <= scale.highest
    assume(
        not on_it
        and not (isinstance(raw, str) and raw.strip().lstrip("+-").replace("_", "").replace(".", "").isdigit())
    )
    text = '{"reason": "r", "score": ' + _as_json(raw) + "}"
    try:
        reply = parse_reply(text, scale.reply)
    except JudgeReplyInvalid:
        return
    raise AssertionError(f"read as {reply.score}")


def _as_json(value):
    return repr(value) if isinstance(value, float) else orjson.dumps(value).decode() if _fits(value) else str(value)


def _fits(value):
    try:
        orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return False
    return True


probabilities = st.dictionaries(
    st.from_regex(r"\A ?-?[0-9]{1,3}\Z") | st.text(max_size=3), st.floats(0.0001, 1.0), min_size=1, max_size=20
)


@given(scales, probabilities, st.data())
def test_a_weighted_score_stays_on_the_scale(scale, weights, data):
    written = str(data.draw(st.integers(scale.lowest, scale.highest)))
    weights = weights | {written: data.draw(st.floats(0.011, 1.0))}
    total = sum(weights.values())
    alternatives = tuple((text, math.log(p / total)) for text, p in weights.items())
    chosen = dict(alternatives)[written]
    tokens = [
        Token('{"reason": "r", "score": ', 0.0),
        Token(written, chosen, alternatives),
        Token("}", 0.0, (("}", 0.0),)),
    ]
    weighed = score_distribution("".join(token.text for token in tokens), tokens, scale)
    if weighed is not None:
        assert scale.lowest <= weighed.moments[0] <= scale.highest
        assert 0.0 < weighed.kept_mass <= 1.0
        assert all(scale.lowest <= value <= scale.highest for value in weighed.masses)


@given(scales, st.text(), st.data())
async def test_how_an_answer_is_cut_into_tokens_does_not_matter(scale, reason, data):
    """With certain tokens the expected score is the one written, wherever the tokeniser cuts."""
    number = data.draw(st.integers(scale.lowest, scale.highest))
    text = orjson.dumps({"reason": sanitize(reason), "score": number}).decode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=12)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    said = ScriptedAnswer(text, [Token(part, 0.0, ((part, 0.0),)) for part in parts])
    score = await ask_score(ScriptedJudge(said), PROMPT, scale)
    assert score.raw_score == number
    assert math.isclose(score.value, scale.normalize(number), abs_tol=1e-9)


@given(st.lists(st.sampled_from(["yes", "no", "unclear"]), min_size=1, max_size=50), st.sampled_from(["yes", "no"]))
async def test_a_share_is_between_0_and_1(words, counts):
    judge = ScriptedJudge({"verdicts": [{"reason": "r", "verdict": word} for word in words]})
    share = RatioSpec(counting_verdicts=frozenset({counts}), empty_score=1.0, noun="items", predicate="count")
    score = await score_ratio(judge, share, "bias_verdicts.txt", [ItemWindow(items=words)])
    assert score.value == words.count(counts) / len(words)


@given(st.integers(0, 30), st.lists(st.sampled_from(["identical", "similar", "different", "missing", "extra"])))
def test_penalties_stop_at_0(expected_keys, labels):
    assert 0.0 <= score_of(expected_keys, labels) <= 100.0


@given(json_values, json_values)
def test_likeness_is_a_share_of_the_expected_leaves(expected, actual):
    leaves = likeness(expected, actual)
    assert 0.0 <= leaves.alike <= leaves.count + 1e-9
    same = likeness(expected, expected)
    assert math.isclose(same.alike, same.count)


# Reading and fencing


@given(st.text())
def test_no_text_makes_the_reader_fail_otherwise(text):
    try:
        reply = parse_reply(text, Scale(0, 10).reply)
    except JudgeReplyInvalid:
        return
    assert 0 <= reply.score <= 10


@given(st.text(alphabet='{}[]",:\\ \n`ab"reason"score0123456789', max_size=200))
def test_nor_does_almost_json(text):
    with contextlib.suppress(JudgeReplyInvalid):
        assert 0 <= parse_reply(text, Scale(0, 10).reply).score <= 10


@given(st.text(), st.integers(0, 10))
def test_whatever_the_reason_says_the_score_is_the_score(reason, score):
    reason = reason.encode("utf-8", "replace").decode()
    assert parse_reply(orjson.dumps({"reason": reason, "score": score}).decode(), Scale(0, 10).reply).score == score


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_what_is_fenced_stays_on_its_line(material):
    lines = wrap_untrusted(material, nonce="f" * 32).split("\n")
    start = lines.index(f"<<<material {'f' * 32}>>>")
    assert lines[start + 2] == f"<<<end of material {'f' * 32}>>>"
    assert isinstance(orjson.loads(lines[start + 1]), dict)
    assert sum("f" * 32 in line for line in lines) == 2


@given(st.text())
@example("<|0|>")
@example("<\uff5c0\uff5c>")
def test_cleaning_twice_is_cleaning_once(text):
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="<[")))
def test_plain_text_is_left_alone(text):
    assert sanitize(text) == text


@given(st.text(), st.integers(2, 50))
def test_a_cut_text_keeps_its_ends(text, longest):
    shown = cut(text, longest)
    assert shown == text or (shown.startswith(text[: longest // 2]) and shown.endswith(text[-(longest // 2) :]))


@given(st.lists(st.integers(0, 100)), st.integers(0, 1000))
def test_what_fits_fits(sizes, budget):
    head, tail = fit_both_ends(sizes, budget)
    assert head + tail <= len(sizes)
    assert sum(sizes[:head]) + sum(sizes[len(sizes) - tail :]) <= max(budget, 0)
    assert head + tail < len(sizes) or sum(sizes) <= budget


@given(st.text(), st.text())
def test_a_value_is_never_a_placeholder(first, second):
    filled = fill("{{a}}|{{b}}", {"a": "{{b}}" + first, "b": second})
    assert filled == "{{b}}" + first + "|" + second


@given(st.text(alphabet="abc .", min_size=1), st.text(alphabet="abc ."), st.text(alphabet="abc ."))
def test_what_was_said_is_found(quote, before, after):
    assert contains_quote(quote.upper(), before + quote + after) or "..." in quote
