import gc

import orjson
import pytest

from evaluators.judges.completions import completion_of
from evaluators.judges.large_json import read_large


def collections_during(load) -> int:
    """How often garbage is collected while a body of 5,000 tokens is read."""
    begun: list[str] = []
    body = orjson.dumps([{"token": str(n), "top_logprobs": [{"token": "a"}]} for n in range(5000)])

    def note(phase, _info):
        begun.append(phase)

    thresholds = gc.get_threshold()  # a service in the same process may have raised them
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(note)
    try:
        assert len(load(body)) == 5000
        return begun.count("start")
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)


def test_garbage_is_collected_behind_a_body_and_not_in_it():
    assert collections_during(lambda body: read_large(body, orjson.loads)) <= 1
    assert collections_during(orjson.loads) > 5
    assert gc.isenabled()


def test_collection_goes_on_after_a_body_that_is_no_json_and_stays_off_where_it_was():
    with pytest.raises(orjson.JSONDecodeError):
        read_large(b"<html>", orjson.loads)
    assert gc.isenabled()
    gc.disable()
    try:
        assert read_large(b"1", orjson.loads) == 1
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_completion_leaves_nothing_that_a_collection_would_go_through():
    """Of 5,000 tokens with twenty alternatives: the texts, and the tokens as JSON until they are looked at."""
    top = [{"token": f"w{n}", "logprob": -4.0 - n, "bytes": [119, n]} for n in range(20)]
    entries = [{"token": f"t{n}", "logprob": -0.5, "top_logprobs": top} for n in range(5000)]
    choice = {"message": {"content": "x"}, "logprobs": {"content": entries}}
    body = orjson.dumps({"choices": [choice]})
    gc.collect()
    before = len(gc.get_objects())
    [made] = completion_of(body).choices
    assert len(gc.get_objects()) - before < 100
    assert (len(made.tokens), made.tokens.texts[4999]) == (5000, "t4999")
    token = made.tokens[-1]
    assert (token.text, token.logprob) == ("t4999", -0.5)
    assert token.alternatives[:2] == (("w0", -4.0), ("w1", -5.0))
    assert [each.text for each in made.tokens[1:3]] == ["t1", "t2"]
    assert made.tokens[1:3].texts == ["t1", "t2"]
