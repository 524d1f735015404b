"""What `check` says of traces in files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml
from made_up import Trace, chat

from collector.commands.check.traffic import trace_lines
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError


def config(**receive: object) -> Config:
    evaluators = {"short": {"kind": "length", "maximum": 100}}
    values = {"receive": receive, "evaluators": evaluators, "monitors": {"all": {"evaluators": ["short"]}}}
    return check(values, "t.yaml", complete=False)


def payload(folder: Path, attributes: dict[str, str], scope: str = "acme.sdk") -> Path:
    path = folder / "001-traces.pb"
    [piece] = Trace().span(1, "ask", attributes, scope=scope).pieces()
    path.write_bytes(piece.value)
    return path


UNREAD = {"acme.ask": "Is it open tomorrow morning?", "acme.reply": "Yes, it opens at nine o'clock.", "acme.model": "m"}


def test_unread_text_comes_with_its_mapping(tmp_path: Path) -> None:
    lines = list(trace_lines(config(files=[]), [payload(tmp_path, UNREAD)]))
    assert any("acme.reply on 1 span 'ask' of acme.sdk" in line for line in lines)
    mapping = textwrap.dedent("\n".join(lines[lines.index("           dialects:") :]))
    assert yaml.safe_load(mapping)["dialects"]["own"]["input"] == "acme.ask"
    assert not any("tomorrow" in line for line in lines), "no judged text"


@pytest.mark.parametrize("scope", ["acme.sdk", ""])
def test_a_call_without_messages_comes_with_the_option_to_look_for(scope: str, tmp_path: Path) -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    lines = list(trace_lines(config(files=[]), [payload(tmp_path, call, scope)]))
    named = "scope 'acme.sdk'" if scope else "a span without a scope"
    said = f"{named} writes no question or no answer; to have both in traces: look for its option"
    assert any(said in line for line in lines)


def test_files_that_are_received_are_examined_and_what_is_no_trace_is_passed_over(tmp_path: Path) -> None:
    payload(tmp_path, UNREAD)
    (tmp_path / "notes.json").write_text("[nothing]")
    (tmp_path / "a.references.json").write_text("{}")
    lines = list(trace_lines(config(files=[str(tmp_path), str(tmp_path / "to-come.pb")])))
    assert any("acme.reply" in line for line in lines)


def test_what_is_read_is_not_mentioned_unless_it_was_named(tmp_path: Path) -> None:
    path = payload(tmp_path, chat("Is it open?", "Yes."))
    assert list(trace_lines(config(files=[str(path)]))) == []
    assert list(trace_lines(config(files=[]), [path])) == ["traces     of 1 traces no text is unread"]


def test_a_named_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        list(trace_lines(config(files=[]), [tmp_path / "none.pb"]))
