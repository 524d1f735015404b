import tracemalloc

import orjson
import pytest

from evaluators.errors import NoCompletion
from evaluators.judges import completions
from evaluators.judges.apis import responses
from evaluators.judges.completions import completion_of
from evaluators.results import Usage


def completion(**choice):
    return orjson.dumps({"choices": [choice], "model": "m-1", "system_fingerprint": "fp"})


def test_what_is_read_of_a_completion():
    body = {
        "model": "m-1",
        "system_fingerprint": "fp",
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}},
        "choices": [
            {
                "finish_reason": "stop",
                "message": {"content": "hi"},
                "logprobs": {
                    "content": [
                        {"token": "hi", "logprob": -0.5, "top_logprobs": [{"token": "ho", "logprob": -1}, {"bad": 1}]}
                    ]
                },
            }
        ],
    }
    read = completion_of(orjson.dumps(body))
    assert (read.model, read.fingerprint, read.usage.cached_input_tokens) == ("m-1", "fp", 8)
    assert read.usage == Usage(input_tokens=10, output_tokens=3, calls=1, cached_input_tokens=8)
    choice = read.choices[0]
    assert (choice.text, choice.finish_reason, choice.refused) == ("hi", "stop", False)
    token = choice.tokens[0]
    assert (token.text, token.logprob, token.alternatives) == ("hi", -0.5, (("ho", -1.0), ("", -9999.0)))
    assert len(choice.tokens[:1]) == 1


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"<html>proxy</html>", "not JSON"),
        (b"", "not JSON"),
        (b'{"choices": [{"message": {"content": "\xff\xfe"}}]}', "not JSON"),
        (b'{"choices": []}', "no choices"),
        (b"[1, 2]", "no choices"),
        (b'"text"', "no choices"),
    ],
)
def test_what_is_no_completion(body, what):
    with pytest.raises(NoCompletion, match=what):
        completion_of(body)


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({}, ""),
        ({"message": None}, ""),
        ({"message": {"content": None}}, ""),
        ({"message": {"content": 5}}, ""),
        (
            {"message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}},
            "ab",
        ),
    ],
)
def test_content_in_odd_shapes(choice, text):
    assert completion_of(completion(**choice)).choices[0].text == text


def test_an_answer_that_was_cut_within_a_character_is_one():
    body = rb'{"choices": [{"message": {"content": "5, cut \ud83d"}}]}'
    assert completion_of(body).choices[0].text == "5, cut \ufffd"


@pytest.mark.parametrize("choice", [{"message": {"refusal": "no"}}, {"finish_reason": "content_filter"}])
def test_refusals(choice):
    assert completion_of(completion(**choice)).choices[0].refused


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": [None, 5]}, 7])
def test_logprobs_in_odd_shapes(logprobs):
    tokens = completion_of(completion(message={"content": "x"}, logprobs=logprobs)).choices[0].tokens
    assert [token.text for token in tokens] in ([], ["", ""])


TOP = b'[{"token": "8", "logprob": -0.1, "bytes": [56]}, {"token": " \xc3\xa9\\n", "logprob": -3}, {"bad": 1}]'
WHOLE = (
    b'{"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "8"}, "logprobs": {"content":'
    b' [{"token": "8", "logprob": -0.1, "bytes": [56], "top_logprobs": '
    + TOP
    + b'}], "refusal": null}}], "model": "m",'
    b' "usage": {"prompt_tokens": 10, "completion_tokens": 3}}'
)
RESPONSE = (
    b'{"id": "r", "output": [{"type": "reasoning", "content": null}, {"type": "message", "content": [{"type":'
    b' "output_text", "text": "8", "logprobs": [{"token": "8", "logprob": -0.1, "top_logprobs": ' + TOP + b"}]}]}],"
    b' "model": "m", "usage": {"input_tokens": 10, "output_tokens": 3}}'
)
ODD = {
    "usual": (b"", b""),
    "half a character in an alternative": (b'" \xc3\xa9', b'"\\ud83d'),
    "half a character in a token": (b'"token": "8"', b'"token": "\\ud83d"'),
    "half a character in a message": (b'content": "8"', b'content": "\\ud83d"'),
    "no characters in an alternative": (b"\xc3\xa9", b"\xff"),
    "a line break in an alternative": (b"\xc3\xa9", b"\n"),
    "no number": (b'"logprob": -3', b'"logprob": NaN'),
    "a number as text": (b'"logprob": -0.1', b'"logprob": "-0.1"'),
    "many digits": (b'"logprob": -3', b'"logprob": -' + b"9" * 40),
    "many tokens used": (b'_tokens": 10', b'_tokens": 1' + b"0" * 40),
    "no token": (b'"token": "8"', b'"token": null'),
    "a token twice": (b'"token": "8"', b'"token": 5, "token": "x", "token": "8"'),
    "another name": (b'"token"', b'"text"'),
    "choices twice": (b'"id": "c"', b'"choices": [5]'),
    "output twice": (b'"id": "r"', b'"output": {}'),
    "alternatives are none": (TOP, b"null"),
    "alternatives are no list": (TOP, b'{"token": "8"}'),
    "deep": (TOP, b"[" * 80 + b"]" * 80),
    "too deep": (TOP, b"[" * 9000 + b"]" * 9000),
    "an entry is none": (b'[{"token": "8", "logprob": -0.1, "b', b'[null, {"token": "8", "logprob": -0.1, "b'),
    "cut": (b"}]", b""),
}


@pytest.mark.parametrize(("found", "put"), ODD.values(), ids=ODD)
@pytest.mark.parametrize(("api", "body"), [(completions, WHOLE), (responses, RESPONSE)], ids=["chat", "responses"])
def test_what_is_passed_over_changes_nothing(monkeypatch, api, body, found, put):
    """The decoder that passes over alternatives and the one that reads everything say the same of odd bodies."""

    def outcome():
        try:
            read = (completion_of if api is completions else responses.completion)(body.replace(found, put, 1))
        except NoCompletion as error:
            return str(error)
        [choice] = read.choices
        texts = list(getattr(choice.tokens, "texts", ()))
        return choice.text, choice.finish_reason, list(choice.tokens), texts, read.model, read.usage

    passing = outcome()
    monkeypatch.setattr(api, "read_passing_over", lambda _body, _decoder: None)
    assert outcome() == passing


def test_a_number_beyond_all_bounds_among_alternatives_leaves_the_answer_without_them():
    choice = completion_of(WHOLE.replace(b"-3", b"-1e999")).choices[0]
    assert choice.text == "8"
    assert (choice.tokens[0].text, choice.tokens[0].logprob, choice.tokens[0].alternatives) == ("8", -9999.0, ())


def test_what_is_nested_deeply_is_no_list_of_alternatives():
    body = WHOLE.replace(TOP, b"[" * 900 + b"]" * 900)
    [token] = completion_of(body).choices[0].tokens
    assert token.text == "8"
    assert not any(text for text, _ in token.alternatives)
    with pytest.raises(NoCompletion, match="nested more than 100 deep"):
        completion_of(body.replace(b'"m"', rb'"m\ud83d"'))


def test_alternatives_stand_in_the_body_until_they_are_looked_at():
    """They are not copied either: what is made of 5,000 tokens is small beside their alternatives."""
    top = [{"token": f"w{n}", "logprob": -4.0 - n, "bytes": [119, n]} for n in range(20)]
    entries = [{"token": f"t{n}", "logprob": -0.5, "top_logprobs": top} for n in range(5000)]
    body = completion(message={"content": "x"}, logprobs={"content": entries})
    tracemalloc.start()
    try:
        read = completion_of(body)
        made, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(read.choices[0].tokens) == 5000
    assert made < len(body) / 3
    assert peak < len(body) / 3
