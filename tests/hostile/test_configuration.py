"""A hostile or careless configuration: refused in one sentence, and no secret of it is shown."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.check.check import report
from collector.config.endpoints import checked_endpoint
from collector.config.loading import check, load
from collector.errors import ConfigError

SECRET = "hunter2-hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['true']",
        "a: &a [1]\nb: [*a, *a]",
        "log: {knid: sqlite}",
        "log: {path: '${env:NOT_SET_ANYWHERE}'}",
        "a: " + "[" * 100 + "]" * 100,
    ],
)
def test_traps_are_errors(tmp_path, text):
    file = tmp_path / "evalstream.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file, {})


@pytest.mark.parametrize(
    "text",
    [
        "a: 1" + ":1" * 500_000,
        "a: 1" + ":1" * 500_000 + ".5",
        "a: [1" + ":1" * 5_000 + ",1]",
        "a: " + "9" * 1_000_000,
        "".join(f"k{n}: 1\n" for n in range(90_000)),
        "judges:\n" + "".join(f"  k{n}: 1\n" for n in range(14_000)),
    ],
)
def test_a_file_within_its_limit_is_refused_within_seconds(tmp_path, text):
    file = tmp_path / "evalstream.yaml"
    file.write_text(text)
    begin = time.process_time()
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert time.process_time() - begin < 20.0
    assert len(str(refused.value)) < 20_000


def test_values_of_the_environment_are_not_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN_IN_PATH", SECRET)
    monkeypatch.setenv("DEPLOYED", f"model-{SECRET}")
    monkeypatch.setenv("TEAM", f"team-{SECRET}")
    file = tmp_path / "evalstream.yaml"
    file.write_text(
        "judges: {main: {model: '${env:DEPLOYED}', base_url: 'http://127.0.0.1:9/${env:TOKEN_IN_PATH}/v1'}}\n"
        "evaluators: {answers: {kind: completeness}}\n"
        "monitors: {all: {evaluators: [answers], match: {service: ['${env:TEAM}']}}}\n"
    )
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text().replace("${env:TEAM}", "another"))
    for more in ([], ["--verbose"], ["--json"], ["--against", str(other)], ["--against", str(other), "--json"]):
        result = CliRunner().invoke(app, ["check", "-c", str(file), *more])
        assert result.exit_code == 0, (result.output, result.exception)
        assert SECRET not in result.output, (more, result.output)
        assert "--against" in more or "${env:" in result.output, (more, result.output)


@pytest.mark.parametrize("user", ["evalstream", "production", "shop-billing"])
def test_the_name_of_a_user_hides_no_word_and_its_password_is_hidden(monkeypatch, user):
    file = Path("deploy/compose/secured-kafka.yaml").resolve()
    monkeypatch.setenv("KAFKA_USER", user)
    for name in set(re.findall(r"env:(\w+)}", file.read_text())) - {"KAFKA_USER"}:
        monkeypatch.setenv(name, f"{SECRET}-{name}:9093")
    shown = CliRunner().invoke(app, ["check", "--offline", "--verbose", "-c", str(file)])
    assert shown.exit_code == 0, shown.output
    assert f"as {user}" in shown.output
    assert "evalstream.spans" in shown.output
    assert "${env:KAFKA_USER}" not in shown.output
    assert SECRET not in shown.output
    assert "Kafka at ${env:KAFKA_BROKERS}" in shown.output

    monkeypatch.setenv("OPENAI_API_KEY", "evalstream")
    assert "evalstream.spans" in CliRunner().invoke(app, ["check", "--offline", "-v", "-c", str(file)]).output


@pytest.mark.parametrize("word", ["everything", "prometheus", "assemble", "security"])
def test_a_key_that_is_a_word_hides_none_of_the_plans_words(monkeypatch, word):
    file = Path("deploy/compose/secured-kafka.yaml").resolve()
    for name in set(re.findall(r"env:(\w+)}", file.read_text())):
        monkeypatch.setenv(name, f"{SECRET}-{name}:9093")
    plans: list[str] = []
    for key in (word, f"{SECRET}-1"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        shown = CliRunner().invoke(app, ["check", "--offline", "--verbose", "-c", str(file)])
        assert shown.exit_code == 0, shown.output
        plans.append(shown.output)
    assert word in plans[1]
    assert plans[0] == plans[1]


def test_a_word_is_hidden_where_another_key_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("WORD", "production")
    file = tmp_path / "evalstream.yaml"
    file.write_text(
        "judges: {main: {model: '${env:WORD}', base_url: 'http://127.0.0.1:9/v1', api_key: '${env:WORD}'}}\n"
        "evaluators: {answers: {kind: completeness}}\n"
        "monitors: {all: {evaluators: [answers]}}\n"
    )
    for more in ([], ["--verbose"], ["--json"]):
        shown = CliRunner().invoke(app, ["check", "--offline", "-c", str(file), *more])
        assert shown.exit_code == 0, shown.output
        assert "production" not in shown.output


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest", "http://[fe80::1]/v1", "http://[::ffff:169.254.169.254]/v1", "http://2852039166/v1",
        "http://0xa9fea9fe/v1", "http://metadata.google.internal/v1", "http://metadata.google.internal./v1",
        "http://[fd00:ec2::254]/v1", "https://name:password@example.com/v1", "http:///v1", "http://[::1/v1", "http://judge:99999/v1",
    ],
)  # fmt: skip
def test_endpoints_where_no_judge_is(url):
    with pytest.raises(ValueError):
        checked_endpoint(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "http://ollama:11434/v1", "https://api.openai.com/v1", "http://10.0.0.7/v1"]
)
def test_endpoints_where_one_may_be(url):
    assert checked_endpoint(url) == url


def whole(**more):
    return {
        "judges": {"main": {"model": "m", "api_key": SECRET}},
        "evaluators": {"exact": {"kind": "exact_match"}},
        "monitors": {"all": {"evaluators": ["exact"]}},
        "redact": {"key": SECRET},
        "receive": {"otlp_http": {"auth": {"tokens": [SECRET]}}},
    } | more


def test_no_secret_is_in_the_plan_or_in_a_dump():
    config = check(whole(), "test")

    shown = "\n".join(report(config)) + repr(config) + config.settings.model_dump_json()
    assert SECRET not in shown
    assert "a bearer token required" in shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"judges": {"main": {"model": "m", "api_key": [SECRET]}}},
        {"judges": {"main": {"model": "m", "base_url": f"https://a:{SECRET}@example.com"}}},
        {"redact": {"key": {"value": SECRET}}},
        {"receive": {"otlp_http": {"auth": {"tokens": [SECRET, 7]}}}},
        {"receive": {"otlp_http": {"auth": {"tokens": SECRET}}}},
    ],
)
def test_no_secret_is_in_an_error(wrong):
    with pytest.raises(ConfigError) as raised:
        check(whole(**wrong), "test")
    assert SECRET not in str(raised.value)
