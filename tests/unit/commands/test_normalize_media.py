"""Files are read as the service receives them: content beyond the bound is hash and size, in traces and in turns."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from made_up import Trace, chat

from collector.assemble.attachments import MediaLimits
from collector.assemble.trace import Assembler
from collector.commands.normalize import normalize
from collector.dialects.registry import Dialects

CONTENT = b"\x89PNG\r\n\x1a\n" + bytes(3000)
TEXT = base64.b64encode(CONTENT).decode()
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}}
ASKED = [
    {"role": "user", "content": "Where is it?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "map", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": [BLOCK]},
]


def write(folder: Path, form: str) -> Path:
    path = folder / {"trace": "traces.pb", "chat": "chat.json", "turn": "turn.json"}[form]
    if form == "trace":
        attributes = chat("", "Here.", **{"gen_ai.input.messages": json.dumps(ASKED)})
        path.write_bytes(Trace().span(1, "chat", attributes).spans.SerializeToString())
    elif form == "chat":
        path.write_text(json.dumps({"id": "c", "messages": [*ASKED, {"role": "assistant", "content": "Here."}]}))
    else:
        result = {"name": "map", "result": [BLOCK]}
        attachment = {"kind": "image", "media_type": "image/png", "data": TEXT}
        turn = {"turn_id": "t", "input": "Where is it?", "actual_output": "Here.", "tools_called": [result]}
        path.write_text(json.dumps({**turn, "attachments": [attachment]}))
    return path


@pytest.mark.parametrize("form", ["trace", "chat", "turn"])
def test_content_is_bounded_in_files_too(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form)
    [turn] = normalize([path])
    [attachment] = turn.attachments
    assert (attachment.size, attachment.data) == (len(CONTENT), None)
    assert "omitted-sha256-" in json.dumps(turn.tools_called[0].result)
    assert TEXT[:100] not in json.dumps([each.result for each in turn.tools_called])
    [stored] = normalize([path], Assembler(Dialects.installed(), media=MediaLimits(len(CONTENT))))
    assert stored.attachments[0].data == TEXT
    assert (stored.attachments[0].sha256, stored.attachments[0].size) == (attachment.sha256, attachment.size)
