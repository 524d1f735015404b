"""Commands in a folder that the service's log is not in, and with a Kafka prefix that no service has used."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from collector.cli import app
from collector.config.loading import load
from collector.errors import ConfigError
from collector.logs.kafka.topics import prefixes
from collector.service.kafka_settings import settings_of_log

CASE = {"input": "Where is it?", "actual_output": "Here.", "human": True}
COMMANDS = [
    "audit",
    "explain 0123456789abcdef0123456789abcdef",
    "diagnose",
    "gate --version 2",
    "dead-letters list",
    "dead-letters redrive 1",
    "compare evaluators --judge other --max-usd 1",
    "compare releases",
    "rejudge --dry-run",
    "dataset --output dataset.jsonl",
    "plan sampling --error 0.02",
    "plan targets",
    "labels next",
    "calibrate --evaluator polite",
    "calibrate named.jsonl --evaluator polite",
    "align --evaluator polite",
    "align named.jsonl --evaluator polite",
    "export again --from 24h",
    "export parquet scores",
    "log copy --to copy.yaml",
    "erase --user somebody --dry-run",
]
"""What reads the log of a service."""
NOT_NEEDED = ["calibrate labels.jsonl --evaluator polite", "check"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "labels.jsonl").write_text(json.dumps({**CASE, "score": 0.9}))
    (folder / "named.jsonl").write_text(json.dumps({"evaluation_id": "e1", "human": True}))
    return folder


def configure(elsewhere: Path, log: dict[str, Any]) -> Path:
    settings = {
        "log": log,
        "judges": {
            name: {
                "model": "m",
                "base_url": "http://127.0.0.1:9/v1",
                "usd_per_million_input_tokens": 1,
                "usd_per_million_output_tokens": 1,
            }
            for name in ("own", "other")
        },
        "evaluators": {
            "polite": {
                "judge": "own",
                "kind": "g_eval",
                "criteria": "Polite?",
                "evaluation_params": ["input"],
                "threshold": 0.5,
            }
        },
        "monitors": {"all": {"evaluators": ["polite"]}},
        "export": {"otlp": {"endpoint": "http://127.0.0.1:9"}},
    }
    for path, of in ((elsewhere.parent / "evalstream.yaml", log), (elsewhere / "copy.yaml", {"path": "copy.db"})):
        path.write_text(yaml.safe_dump({**settings, "log": of}))
    return elsewhere.parent / "evalstream.yaml"


def run(config: Path, command: str) -> Result:
    return CliRunner().invoke(app, [*command.split(), "-c", str(config)])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_is_no_empty_log_and_no_file_comes_into_being(elsewhere: Path, command: str) -> None:
    """`labels next` said that the log has no score by the present version, and `compare evaluators` left a file."""
    config = configure(elsewhere, {"path": "live.db"})
    before = sorted(elsewhere.iterdir())
    result = run(config, command)
    assert isinstance(result.exception, ConfigError), result.output  # status 2
    said = "live.db: no such file; run the command where the service's log.path leads to its file"
    assert str(result.exception) == said
    assert sorted(elsewhere.iterdir()) == before


@pytest.mark.parametrize("command", NOT_NEEDED)
def test_what_needs_no_log_makes_none(elsewhere: Path, command: str) -> None:
    config = configure(elsewhere, {"path": "live.db"})
    before = sorted(elsewhere.iterdir())
    result = run(config, command)
    assert result.exit_code == 0, result.output
    assert sorted(elsewhere.iterdir()) == before


@pytest.mark.kafka
def test_a_prefix_without_topics_is_no_empty_log_and_no_topic_comes_into_being(
    kafka_broker: Any, elsewhere: Path
) -> None:
    prefix = f"nobody-{uuid.uuid4().hex[:8]}"
    kafka = {"bootstrap_servers": [kafka_broker.bootstrap], "prefix": prefix, "partitions": 1}
    config = configure(elsewhere, {"kind": "kafka", "kafka": kafka})
    for command in COMMANDS:
        result = run(config, command)
        assert isinstance(result.exception, ConfigError), (command, result.output)
        assert f"log.kafka: there is no topic {prefix}.spans" in str(result.exception), command
    result = run(config, NOT_NEEDED[0])
    assert result.exit_code == 0, result.output
    topics = load(config).settings.log.kafka
    assert topics is not None
    assert prefix not in {name.rpartition(".")[0] for name in prefixes(settings_of_log(topics), "")}
