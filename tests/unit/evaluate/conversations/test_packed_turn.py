from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from collector.evaluate.conversations.packed_turn import PackedTurn, pack
from collector.records.json import turn_to_json
from collector.records.recorded_turn import RecordedTurn
from evaluators.cases import Message, TokenCount, Turn

TURN = Turn(
    turn_id="t1",
    conversation_id="c1",
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    service="chat-api",
    model="gpt-4.1-mini",
    started_at=datetime(2026, 1, 2, tzinfo=UTC),
    history=(Message(role="user", content="Hello"),),
    input="How much is a kayak?",
    actual_output="84 euros.",
    usage=TokenCount(input_tokens=41, output_tokens=17),
)
BY_ZLIB = (
    "IzlMDBLTzM1MDS0NzZJTTIxTUixMTCxSk4wMDZMtDIwNLZNBzoKHT5J5YopZkrmhmaWRgbGxsSFIEh4qoLDSTSzA41lM/xkY6hoYhRgYWIFRFJLfPPLLFXJLkzMU"
    "MosVEhWyEysTs+2x+NfCRCG1tCi/WA8ohyN1mhhipE9D89paAA=="
)
BY_ZSTD = (
    "KLUv/WAqAPUDAGIGFxxga9uwgamexcdZrXfwDyWTHtSkEdny3NDikgRXz7P+BSCBhmE4CS4jLPzgBRmbBCrtKNDBFA6DTENK9FwwarDSV9VMTX059Xi5btdk"
    "/SeXsF32nu5r9XaBWgjOCgCjxIxDCejNLfHX2NWvG5sH4BYaGXss3OzxXkQLCA=="
)


def test_a_kept_turn_is_the_turn_without_its_history() -> None:
    packed = pack(RecordedTurn(turn_to_json(TURN)), 1e9)

    assert packed.unpack("t2", "c2") == replace(TURN, history=(), turn_id="t2", conversation_id="c2")


@pytest.mark.parametrize("packed", [BY_ZLIB, BY_ZSTD])
def test_what_earlier_versions_snapshotted_in_the_log_is_read(packed: str) -> None:
    packed = PackedTurn(0.0, 0.0, None, b64decode(packed))

    assert packed.unpack("t1", "c1") == replace(TURN, history=())
