import orjson
import pytest

from evaluators.errors import NoCompletion
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
        (b'{"error": {"message": "overloaded"}}', "an error inside"),
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
