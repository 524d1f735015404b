"""Mistakes of a first configuration: one sentence with place and remedy, without names of classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.loading import load
from collector.errors import ConfigError

JUDGE = 'judges: {{main: {{model: m, base_url: "{url}", api_key: "{key}"}}}}\n'
WHOLE = """evaluators: {good: {kind: g_eval, judge: main, criteria: x, evaluation_params: [input]}}
monitors: {m: {evaluators: [good]}}
"""


def problem(tmp_path: Path, text: str, url: str = "http://127.0.0.1:9/v1", key: str = "x") -> str:
    path = tmp_path / "my.yaml"
    path.write_text(JUDGE.format(url=url, key=key) + text)
    with pytest.raises(ConfigError) as caught:
        load(path, {}, serves=True)
    return str(caught.value).replace(f"{path}: ", "")


@pytest.mark.parametrize(
    ("url", "key", "sentence"),
    [
        ("http://h/v1", "$OPENAI_API_KEY", "judges.main.api_key: $OPENAI_API_KEY stands for nothing; an environment variable"),
        ("http://h/v1", "${KEY}", "judges.main.api_key: ${KEY} stands for nothing; an environment variable is ${env:NAME}"),
        ("http://h/v1/chat/completions", "x", "base_url: ends with /chat/completions, which is added to it; write http://h/v1"),
        ("http://h/v1/responses/", "x", "judges.main.base_url: ends with /responses"),
        ("h/v1", "x", "judges.main.base_url: has the wrong form; needed: the endpoint, like https://host/v1"),
    ],
)  # fmt: skip
def test_judges(tmp_path: Path, url: str, key: str, sentence: str) -> None:
    assert sentence in problem(tmp_path, WHOLE, url, key)


def test_mistakes_of_all_kinds_are_named_at_once(tmp_path: Path) -> None:
    """An unknown evaluator was named only once the wrong values were right, and a wrong criterion after that."""
    text = WHOLE.replace("criteria: x", "criterion: x").replace("[good]", "[good, god], match: {services: a}")
    lines = problem(tmp_path, text).splitlines()
    inner = ["evaluators.good.criterion", "monitors.m.evaluators", "monitors.m.match"]
    assert [line.partition(": ")[0] for line in lines] == inner
    assert lines[-1].endswith("'services' is no field that can be matched; did you mean 'service'?")

    text = text.replace("match:", "alerts: {targets: {good: 75}}, match:")
    lines = problem(tmp_path, f"{text}alerts: {{webhooks: https://h}}\n").splitlines()
    first = ["alerts.webhooks", "monitors.m.alerts.targets.good"]
    assert sorted(line.partition(": ")[0] for line in lines) == sorted([*first, *inner])
    assert "unknown evaluator 'god'; did you mean 'good'?" in lines[-1]


def test_a_misspelt_section_makes_no_attribute_unknown(tmp_path: Path) -> None:
    """What it says of ready-made turns and of attributes is not known."""
    text = WHOLE.replace("[good]", "[good], match: {attributes.plan: gold}")
    [line] = problem(tmp_path, f"{text}recieve: {{files: [turns.jsonl]}}\n").splitlines()
    assert "did you mean 'receive'" in line
    assert "no turn has the attribute 'plan'" in problem(tmp_path, f"{text}receive: {{}}\nlog: {{kind: disk}}\n")


def test_an_evaluator_named_by_a_number(tmp_path: Path) -> None:
    """Where a monitor was looked at too, it ended in a traceback."""
    lines = problem(tmp_path, WHOLE.replace("evaluators: {good", "evaluators: {404").replace("[good]", "['404', x]"))
    assert 'evaluators[404]: must be a string; write "404" in quotes' in lines


def test_a_misspelt_section_has_no_mistakes_by_its_absence(tmp_path: Path) -> None:
    [line] = problem(tmp_path, WHOLE.replace("evaluators: {good", "evaluator: {good")).splitlines()
    assert "did you mean 'evaluators'" in line


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[good]", "[good], sample: 10%", "for 10% write 0.1"),
        ("[good]", "[good], sample: '60 %'", "for 60 % write 0.6"),
        ("[good]", "{a: good}", "monitors.m.evaluators: must be a list"),
        ("{m:", "{yes:", "the key yes is true or false in YAML; write it in quotes"),
        ("[input]", "[inptu]", "evaluators.good.evaluation_params[0]"),
        ("[good]", "[good], match: {started_at: yesterday}", "'started_at' is no field that can be matched"),
        ("[good]", "[good], match: {usage: much}", "'usage' is no field"),
    ],
)
def test_monitors_and_evaluators(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    line = problem(tmp_path, WHOLE.replace(old, new))
    assert sentence in line
    assert "literal[" not in line
    assert "Settings" not in line
