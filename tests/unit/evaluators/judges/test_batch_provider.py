"""What a provider sends that is shown to people, or put into an address; and in which order it is sent something."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from evaluators.errors import NoCompletion
from evaluators.judges.batches.openai_batches import OpenAIBatches
from evaluators.judges.batches.provider import BatchItem, id_in, short_name


@pytest.mark.parametrize("name", ["batch_68a1", "file-2", "token_limit_exceeded", "msgbatch_01.a"])
def test_short_names(name: str) -> None:
    assert short_name(name) == name
    assert id_in({"id": name}) == name


@pytest.mark.parametrize("value", ["", None, 7, "a b", "../files", "\x1b[2J", "x" * 129, "naïve"], ids=repr)
def test_anything_else_is_none(value: object) -> None:
    assert short_name(value) == ""
    with pytest.raises(NoCompletion):
        id_in({"id": value})


class Connection:
    """Takes what is sent, and remembers where to."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def upload(self, path: str, _name: str, _content: bytes, **_fields: str) -> dict[str, Any]:
        self.paths.append(path)
        return {"id": "file-1"}

    async def post(self, path: str, _content: bytes) -> dict[str, Any]:
        self.paths.append(path)
        return {"id": "batch_1"}


async def test_no_batch_is_made_of_a_file_whose_sender_has_lost_its_partition_meanwhile() -> None:
    """It stood still while it sent the file: whoever owns the partition now sends the same."""
    connection: Any = Connection()
    owns = asyncio.Event()
    batches = OpenAIBatches(connection, "/chat/completions", owns.wait)  # type: ignore[arg-type]
    submitting = asyncio.create_task(batches.submit("key", [BatchItem("a", {})]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.paths == ["/files"]
    owns.set()
    assert await submitting == "batch_1"
    assert connection.paths == ["/files", "/batches"]
