import gc

import orjson
import pytest

from evaluators.judges.large_json import load_large


def collections_during(load) -> int:
    """How often garbage is collected while a body of 5,000 tokens is read."""
    begun: list[str] = []
    body = orjson.dumps([{"token": str(n), "top_logprobs": [{"token": "a"}]} for n in range(5000)])

    def note(phase, _info):
        begun.append(phase)

    gc.callbacks.append(note)
    try:
        assert len(load(body)) == 5000
        return begun.count("start")
    finally:
        gc.callbacks.remove(note)


def test_garbage_is_collected_behind_a_body_and_not_in_it():
    assert collections_during(load_large) <= 1
    assert collections_during(orjson.loads) > 5
    assert gc.isenabled()


def test_collection_goes_on_after_a_body_that_is_no_json_and_stays_off_where_it_was():
    with pytest.raises(orjson.JSONDecodeError):
        load_large(b"<html>")
    assert gc.isenabled()
    gc.disable()
    try:
        assert load_large(b"1") == 1
        assert not gc.isenabled()
    finally:
        gc.enable()
