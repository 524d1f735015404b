"""Mistakes that people make in a configuration or a file of cases: one sentence, the place, and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.commands.normalize import normalize
from collector.config.attribute_names import refuse_unknown_attributes
from collector.config.loading import load
from collector.config.yaml_file import parse
from collector.errors import ConfigError

FILE = """\
judges: {main: {model: m, base_url: "http://127.0.0.1:1/v1", api_key: k}}
evaluators: {good: {kind: g_eval, criteria: x, evaluation_params: [input]}}
monitors: {all: {evaluators: [good]}}
"""
USE = "monitors.all.evaluators[0]"
IN_MONITOR = (
    ("sample: 10%", "monitors.all.sample: write a share above 0 and at most 1, or auto; for 10% write 0.1"),
    ("sample: 2", "monitors.all.sample: write a share above 0 and at most 1, or auto"),
    ("sample: 0", "monitors.all.sample: write a share above 0 and at most 1, or auto"),
    ("idle_timeout: 10 minutes", "monitors.all.idle_timeout: write a duration like 10s, 15m or 1h"),
    ("idle_timeout: ten", "monitors.all.idle_timeout: write a duration like 10s, 15m or 1h"),
    ("budget: 5", "monitors.all.budget: must be a mapping, with key: value such as usd_per_hour, usd_per_day, "),
    ("salt: x", "monitors.all.salt: unknown key; write it within evaluators"),
    ("low_score: []", "monitors.all.low_score: unknown key; write it within boost"),
    ("sampel: 0.1", "monitors.all.sampel: unknown key; did you mean 'sample'?"),
    ("match: {started_at: yesterday}", "monitors.all.match: 'started_at' is no field that can be matched"),
    ('sample: "0,1"', "monitors.all.sample: write a share above 0 and at most 1, or auto; for 0,1 write 0.1"),
    ("idle_timeout: 7 days", "monitors.all.idle_timeout: write a duration like 10s, 15m or 1h; for 7 days write 7d"),
    ("match: {service: 3}", 'monitors.all.match.service: must be a string; write "3" in quotes'),
    ("match: {Service: a}", "monitors.all.match: 'Service' is no field that can be matched; did you mean 'service'?"),
    ('budget: {usd_per_day: "5 USD"}', "monitors.all.budget.usd_per_day: must be a number; for 5 USD write 5"),
    ("alerts: {targets: {good: 75}}", "monitors.all.alerts.targets.good: must be at most 1.0; for 75 % write 0.75"),
    (
        "alerts: {targets: {god: 0.7}}",
        "monitors.all.alerts.targets: 'god' is not an evaluator of this monitor; did you",
    ),
    ("sampling_rate: 0.1", "monitors.all.sampling_rate: unknown key; write sample"),
    (
        "budget: {usd_per_day: 5}",
        "monitors.all.budget: the price of judge main is unknown; write judges.main.usd_per_mil",
    ),
)
CHANGED = (
    ("api_key: k", "api_key_file: no", "judges.main.api_key_file: must be the path of a file; yes, no, on and off are"),
    (
        "criteria: x",
        "criteria: x, threshold: 6",
        "evaluators.good.threshold: must be at most 1.0; for 6 % write 0.06, for 6 of 10 0.6",
    ),
    ("criteria: x", "criteria: x, threshold: 60%", "evaluators.good.threshold: must be a number; for 60% write 0.6"),
    ("criteria: x", "criteria: x, threshold: 5", "evaluators.good.threshold: must be at most 1"),
    ("criteria: x", "criteria: x, judge: big", "evaluators.good.judge: unknown judge 'big'; choose from main"),
    ("criteria: x", "criterai: x", "evaluators.good.criterai: unknown key; did you mean 'criteria'?"),
    ("criteria: x", "juge: main, criteria: x", "evaluators.good.juge: unknown key; did you mean 'judge'?"),
    (
        "kind: g_eval",
        "kind: zz",
        "evaluators.good.kind: unknown evaluator kind 'zz'; if your own, install it or write plugins: and its folder, and restart; else choose",
    ),
    ("kind: g_eval", "kind: geval", "evaluators.good.kind: unknown evaluator kind 'geval'; did you mean 'g_eval'?"),
    ("[input]", "[inptu]", "evaluators.good.evaluation_params[0]: must be 'input'"),
    ("[input]", "input", "evaluators.good.evaluation_params: must be a list; write evaluation_params: […]"),
    ("[good]", "good", "monitors.all.evaluators: must be a list; write evaluators: […]"),
    (
        "[good]",
        "[yes]",
        f"{USE}: must be a string, or a mapping; yes, no, on and off are true and false in YAML: write it in quotes",
    ),
    ("[good]", "[3]", f"{USE}: must be a string, or a mapping"),
    ("[good]", "[[good]]", f"{USE}: must be a string, or a mapping"),
    ("[good]", "[{nme: good}]", f"{USE}.nme: unknown key; did you mean 'name'?"),
    ("[good]", "[bad]", "monitors.all.evaluators: unknown evaluator 'bad'; choose from good"),
    (
        "api_key: k",
        "api_key: $OPENAI_API_KEY",
        "judges.main.api_key: $OPENAI_API_KEY stands for nothing; an environment",
    ),
    ("api_key: k", 'api_key: "${NOPE}"', "judges.main.api_key: ${NOPE} stands for nothing; an environment variable is"),
    ("api_key: k", 'api_key: "${env:NOPE}"', "judges.main.api_key: the environment variable NOPE is not set; set it"),
    ("api_key: k", "concurrency: 0", "judges.main.concurrency: must be at least 1"),
    ("api_key: k", 'timeout: "1 minute"', "judges.main.timeout: write a duration like 10s, 15m or 1h"),
    ("api_key: k", "usd_per_million_input_tokens: $1", "judges.main.usd_per_million_input_tokens: must be a number"),
    (
        ":1/v1",
        ":1/v1/chat/completions",
        "judges.main.base_url: ends with /chat/completions, which is added to it; write",
    ),
    ("http://127", "127", "judges.main.base_url: has the wrong form; needed: the endpoint, like https://host/v1"),
    ("{all: {", "{all: 3, b: {", "monitors.all: must be a mapping, with key: value such as "),
    ("api_key: k", "api_key: os.environ/KEY", "judges.main.api_key: os.environ/KEY stands for nothing; an environment"),
    ("api_key: k", 'api_key: "%KEY%"', "judges.main.api_key: %KEY% stands for nothing; an environment variable is"),
    ("api_key: k", 'api_key: "env:KEY"', "judges.main.api_key: env:KEY stands for nothing; an environment variable is"),
    (
        "api_key: k",
        'api_key: "{{ KEY }}"',
        "judges.main.api_key: {{ KEY }} stands for nothing; an environment variable",
    ),
    ("api_key: k", 'api_key: "$(cat key)"', "judges.main.api_key: $(cat key) stands for nothing; an environment"),
    (
        "api_key: k",
        'api_key: "Bearer k"',
        "judges.main.api_key: begins with Bearer, which is added to it; write the key",
    ),
    ("api_key: k", 'api_key: "k\\n"', "judges.main.api_key: contains a space or an end of line; write the key alone"),
    (
        "api_key: k",
        'api_key: "<your key>"',
        "judges.main.api_key: is an example's text; write the key, usually as ${env:",
    ),
    (":1/v1", ":1/v1 ", "judges.main.base_url: contains a space; remove it"),
    (
        ":1/v1",
        ":1/v1?api-key=k",
        "judges.main.base_url: ends with ?… or #…, after which no path can be added; write the",
    ),
    (
        "http://127.0.0.1:1/v1",
        "https://api.openai.com",
        "judges.main.base_url: has no path; write https://api.openai.com/v1",
    ),
    (
        "http://127.0.0.1:1/v1",
        "https://openrouter.ai/",
        "judges.main.base_url: has no path; write https://openrouter.ai/api/v1",
    ),
    (":1/v1", ":port/v1", "judges.main.base_url: is not a URL; write it like https://host/v1"),
    ("base_url", "api_base", "judges.main.api_base: unknown key; write base_url"),
    ("criteria: x", 'criteria: x, threshold: "0,7"', "evaluators.good.threshold: must be a number; for 0,7 write 0.7"),
    ("criteria: x, ", "", "evaluators.good: criteria, evaluation_steps and preset: give exactly one of them; none is"),
    ("[input]", "[“input”]", "evaluators.good.evaluation_params[0]: must be 'input'"),
    ("[good]", "[good, good]", "monitors.all.evaluators: good is listed twice; keep one of them"),
    ("{good: {", "[{", "is not valid YAML: line 2, column "),
    ("{all: {evaluators: [good]}}", "", "monitors: must be a mapping, with key: value; write monitors: {NAME: …}"),
)
BROKERS = (
    (
        "[SASL_SSL://h:9093]",
        "[0]: begins with SASL_SSL://, and a broker is host:port; write h:9093, and security: {prot",
    ),
    ("[http://h:9092/]", "[0]: begins with http://, and a broker is host:port; write h:9092"),
    ('["a:9092,b:9092"]', "[0]: holds several brokers; write each as an item: [a:9092, b:9092]"),
    ("a:9092,b:9092", ": must be a list; write bootstrap_servers: […]"),
    ("\"['a:9092']\"", ": must be a list; write bootstrap_servers: […]"),
    ('["host1:port1"]', "[0]: 'port1' is no port; write host:9092"),
    ('["h:0"]', "[0]: '0' is no port; write host:9092"),
    ('["h:99999"]', "[0]: '99999' is no port; write host:9092"),
    ('["<host>:9092"]', "[0]: '<host>:9092' is no address of a broker; write host:9092"),
    ("[localhost]", "[0]: 'localhost' has no port; write localhost:9092"),
    ('["[::1]"]', "[0]: '[::1]' has no port; write [::1]:9092"),
    ("[]", ": must have at least 1 item"),
)
ADDED = (
    ("receive: {kafka: {topic: x}}", "receive.kafka: must be a list; begin each item with -"),
    ("page: {port: 99999}", "page.port: must be at most 65535"),
    ('page: {port: "99999"}', "page.port: must be at most 65535"),
    ("log: {kind: kafka, kafka: {bootstrap_servers: [h:1], prefix: a b}}", "log.kafka.prefix: a name here has letters,"),
    ("page: {port: http}", "page.port: must be a whole number"),
    ("store_text: maybe", "store_text: must be true or false"),
    ("export: {otlp: {endpoint: collector:4318}}", "export.otlp.endpoint: has the wrong form; needed: the OTLP/HTTP endpoint, like"),
    ('export: {otlp: {endpoint: "http://h:4318/v1/traces"}}', "export.otlp.endpoint: ends with /v1/traces, which is added to it; write http://h:4318"),
    ('export: {otlp: {endpoint: "http://h:port"}}', "export.otlp.endpoint: is not a URL; write it like"),
    ('alerts: {watcher: {alertmanager: "http://a:9093/api/v2/alerts"}}', "alerts.watcher.alertmanager: ends with /api/v2/alerts, which"),
    ("log: {kind: kafak}", "log.kind: must be 'sqlite', 'kafka' or 'memory'; did you mean 'kafka'?"),
    ("log: kafka", "log: must be a mapping, with key: value such as kind, path, "),
    ("log: {kind: kafka}", "log.kafka: is missing; write bootstrap_servers: [host:9092]"),
    ("monitor: {}", "monitor: unknown key; did you mean 'monitors'?"),
    ("page:{port: 1}", "page:{port: a space is missing after the colon; write page: …"),
    ("page:\n  port:9464", "page: must be a mapping, with key: value such as host, port, url; a space is missing after its"),
    ("page:\n\u00a0\u00a0port: 9464", "\u00a0\u00a0port: a space that is none to YAML (a no-break space) stands before it"),
    ('page: {port: "0.0.0.0:9464"}', "page.port: must be a whole number; write host: 0.0.0.0 and port: 9464"),
    ('page: {host: "0.0.0.0:9464"}', "page.host: must be a host alone; write host: 0.0.0.0 and port: 9464"),
    ('receive: {otlp_http: {host: "http://0.0.0.0"}}', "receive.otlp_http.host: must be a host alone; write host: 0.0.0.0"),
    ("receive: {otlp_http: {endpoint: x}}", "receive.otlp_http.endpoint: unknown key; write host and port"),
    ("receive: {otlp: {port: 1}}", "receive.otlp: unknown key; write otlp_http or otlp_grpc"),
    ("receive: {kafka: [{bootstrap_servers: ['h:1'], topic: x}]}", "receive.kafka[0].topic: unknown key; write traces, logs or"),
    ("receive: {otlp_http: {tls: {certificate: a}}}", "receive.otlp_http.tls.key: is missing; needed: PEM file with its"),
    ("page: {port: 4318}\nreceive: {otlp_http: {port: 4318}}", "page.port: 4318 is the port of receive.otlp_http, too; choose"),
    ("redact: {detectors: [emial]}", "redact.detectors: unknown detector 'emial'; choose from patterns"),
    ("alerts: {watcher: {webhook: x.example}}", "alerts.watcher.webhook: must begin with http:// or https://"),
    ("--- \npage: {}", "is not valid YAML: line 4, column 1: --- begins a second document; keep one"),
    ('log: {path: "C:\\data"}', "is not valid YAML: line 4, column 17: in double quotes \\ begins an escape; write the text"),
    ("export: {promehteus: {}}", "export.promehteus: unknown exporter 'promehteus'; did you mean 'prometheus'?"),
    ("monitors: {b: {evaluators: [good]}}", "is not valid YAML: line 4, column 1: the key 'monitors' occurs twice"),
)  # fmt: skip
NO_YAML = (
    ("", "must be a mapping with keys such as judges, evaluators, monitors"),
    ("- a\n", "must be a mapping with keys such as judges, evaluators, monitors"),
    ("judges:\n\tmain: 1\n", "is not valid YAML: line 2, column 1: a tab indents this line; use spaces"),
    ("judges: a: b\n", "is not valid YAML: line 1, column 10: a second colon in a line; begin a new line"),
    ("yes: 1\n", "is not valid YAML: line 1, column 1: the key yes is true or false in YAML; write it in quotes"),
    (
        "a: [1, 2\nb: 3\n",
        "is not valid YAML: line 2, column 2: a bracket is not closed, a comma is missing, or a text with",
    ),
    (
        "a: {b: Is it right?, c: 1}\n",
        "is not valid YAML: line 1, column 19: a question mark within brackets; write the text in quotes",
    ),
    ('a: "x\n', "is not valid YAML: line 2, column 1: a quote or a bracket is not closed; close it"),
    ("a: 1\n  b: 2\n", "is not valid YAML: line 2, column 4: a second colon in a line; begin a new line"),
    ("a: &x 1\nb: *x\n", "is not valid YAML: line 2, column 4: aliases (*name) are not supported; write the value out"),
    (
        "a: {b: ${env:KEY}}\n",
        'is not valid YAML: line 1, column 9: a comma is missing, or a text with { is not in quotes; write it like "${env:N',
    ),
    ("a: @x\n", "is not valid YAML: line 1, column 4: a sign that begins no text; write the text in quotes"),
)
CASES: tuple[tuple[str, object, str], ...] = (
    ("t.jsonl", {"frage": "q", "antwort": "a"}, "it has the keys frage and antwort; name the question input and the answer"),
    ("t.jsonl", {"question": "q"}, "it has the keys question; name the answer actual_output"),
    ("t.json", [{"role": "user", "content": "q"}], 'it is a list of messages; write {"messages": […]}'),
    ("t.json", {"data": [{"question": "q", "answer": "a"}]}, "if data has the cases, write that list alone"),
    ("t.csv", "frage,antwort\nq,a\n", "the first line: it has the keys frage and antwort; name the question input"),
    ("t.csv", "question;answer\nq;a\n", "the first line: columns are separated by ';'; separate them by commas"),
    ("t.csv", "question,answr\nq,a\n", "the first line: answr: unknown key in a turn; did you mean 'answer'?"),
    ("t.tsv", "question\tanswer\nq\ta\n", "TSV is not read; save it as CSV or as JSON lines"),
    ("t.xlsx", "PK", "an Excel workbook is not read; save it as CSV or as JSON lines"),
    ("t.parquet", "PAR1", "a Parquet file is not read; save it as CSV or as JSON lines"),
    ("t.txt", "hello", "not JSON; give OTLP, or turns with one JSON object per line"),
    ("t.jsonl", "", "is empty; give OTLP, or turns with one JSON object per line"),
    ("t.jsonl", '{"question": \n', "line 1 is not JSON; write one JSON object a line, or remove it"),
    ("t.jsonl", b'{"input": "\xe4", "output": "a"}', "is not UTF-8; save it as UTF-8"),
    ("t.jsonl", {"input": 3, "actual_output": "a"}, "input must be a string"),
    ("t.jsonl", '{"input": "q", \n', "line 1 is not JSON; write one JSON object a line"),
    ("t.jsonl", '{"input": "q", "output": "a"},\n{"input": "q", "output": "a"},\n', "line 1 is not JSON; remove the comma"),
    ("t.jsonl", "{'input': 'q', 'output': 'a'}\n", "line 1 is not JSON; JSON has double quotes"),
    ("t.csv", "question,answer\nq,a\n".encode("utf-16"), "not UTF-8; save it as CSV UTF-8"),
    ("t.csv", "question,answer\nq,a,b\n", "line 2 has more cells than the first line has names"),
    ("t.json", '[\n{"input": "q",\n"score": NaN}]', "is not JSON (line 3, column 10: unexpected character, expected a JSON value); write null"),
    ("t.jsonl", '{"input": "q", "score": -Infinity}\n', "line 1 is not JSON; write null for NaN and Infinity"),
    ("t.json", '[\n{"input": "q"}\n{"input": "q"}]', "is not JSON (line 3, column 1: unexpected character, expected ',' or ']'); correct it there"),
    ("t.jsonl", b'{"input": "q", "output": "a"}\n{"input": "\xe4", "output": "a"}', "line 2 is not UTF-8; save it as UTF-8"),
    ("t.csv", b"question,answer\nq,a\n\xe4,a\n", "line 3 is not UTF-8; save it as CSV UTF-8"),
    ("t.csv", "question,question,answer\nq,r,a\n", "line 2: two columns give 'input', and differ; keep one of them"),
    ("t.csv", "question,output,answer\nq,a,b\n", "line 2: two columns give 'actual_output', and differ; keep one of them"),
    ("t.csv", 'question,answer\nq,"a\n', "line 2: not CSV (unexpected end of data); end each quoted text with a quote"),
    ("t.csv", 'question,"answer\nq,a\n', "line 2: not CSV (unexpected end of data); end each quoted text with a quote"),
    ("t.yaml", "input: a\n", "not JSON; give OTLP, or turns with one JSON object per line"),  # was read as protobuf
    ("t.docx", b"PK\x03\x04", "is an archive or an Office document; unpack it, or save it as CSV or as JSON lines"),
)  # fmt: skip
READ: tuple[object, ...] = (
    {"question": "q", "answer": "a"},
    {"input": "q", "output": "a"},
    {"prompt": "q", "completion": "a"},
    {"query": "q", "response": "a"},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
    b"\xef\xbb\xbf" + b'{"question": "q", "answer": "a"}',
    [{"question": "q", "answer": "a"}],
)


def complaint(folder: Path, text: str) -> str:
    path = folder / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        refuse_unknown_attributes(load(path, {}))
    (sentence,) = str(refused.value).splitlines()
    return sentence.removeprefix(f"{path}: ")


def good(sentence: str, expected: str) -> None:
    assert sentence.startswith(expected)
    assert not any(word in sentence for word in ("Settings", "Error", "object has no", "NoneType", "[literal"))


@pytest.mark.parametrize(("key", "expected"), IN_MONITOR)
def test_in_a_monitor(tmp_path: Path, key: str, expected: str) -> None:
    good(complaint(tmp_path, FILE.replace("[good]}", f"[good], {key}}}")), expected)


@pytest.mark.parametrize(("before", "after", "expected"), CHANGED)
def test_a_value(tmp_path: Path, before: str, after: str, expected: str) -> None:
    good(complaint(tmp_path, FILE.replace(before, after)), expected)


@pytest.mark.parametrize(
    "named",
    [
        "alerts: {targets: {good: 0.5}}", "alerts: {objectives: {good: 0.9}}", "packs: [[good, fine]]",
        "alerts: {shares: {good: {x: {at_most: 0.1}}}}",
    ],
)  # fmt: skip
def test_a_misspelt_evaluator_is_one_mistake_and_no_advice(tmp_path: Path, named: str) -> None:
    """Of `targets: {good: …}` it was said, too: "not an evaluator of this monitor; did you mean 'goood'?"."""
    text = FILE.replace("[input]}}", "[input]}, fine: {kind: exact_match}}")
    text = text.replace("[good]}", f"[goood, fine], {named}}}")

    def mistakes(names: str) -> str:
        with pytest.raises(ConfigError) as refused:
            load(written(tmp_path / "c.yaml", text.replace("[goood, fine]", names)), {})
        return str(refused.value)

    assert "unknown evaluator 'goood'; did you mean 'good'?" in mistakes("[goood, fine]")
    assert "is not an evaluator of this monitor" not in mistakes("[goood, fine]")
    for names in ("[fine]", "[another, fine]"):
        assert "'good' is not an evaluator of this monitor; choose from fine" in mistakes(names)


@pytest.mark.parametrize(("value", "expected"), BROKERS)
def test_brokers(tmp_path: Path, value: str, expected: str) -> None:
    text = f"{FILE}log: {{kind: kafka, kafka: {{bootstrap_servers: {value}}}}}\n"
    if value[:2] == "a:":
        text = f"{FILE}log:\n  kind: kafka\n  kafka:\n    bootstrap_servers: {value}\n"
    good(complaint(tmp_path, text), f"log.kafka.bootstrap_servers{expected}")


@pytest.mark.parametrize(("line", "expected"), ADDED)
def test_a_section(tmp_path: Path, line: str, expected: str) -> None:
    good(complaint(tmp_path, f"{FILE}{line}\n"), expected)


@pytest.mark.parametrize(("text", "expected"), NO_YAML)
def test_yaml(tmp_path: Path, text: str, expected: str) -> None:
    good(complaint(tmp_path, text), expected)


def test_a_file_in_another_encoding_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not UTF-8 text; save it as UTF-8"):
        parse(b"a: \xe4\n", "c.yaml")
    with pytest.raises(ConfigError, match="name the file with -c, or write one with evalstream init"):
        load(tmp_path / "nowhere.yaml", {})


def written(path: Path, content: object) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def turns(path: Path) -> list[Any]:
    return list(normalize([path]))


@pytest.mark.parametrize(("name", "content", "expected"), CASES)
def test_a_file_of_cases(tmp_path: Path, name: str, content: object, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        turns(written(tmp_path / name, content))
    assert expected in str(refused.value)


def test_columns_as_people_head_them_are_read(tmp_path: Path) -> None:
    (turn,) = turns(written(tmp_path / "t.csv", "Input,Actual Output,Index\nq,a,1\n"))
    assert (turn.input, turn.actual_output) == ("q", "a")


@pytest.mark.parametrize("content", READ)
def test_the_commonest_first_files_are_read(tmp_path: Path, content: object) -> None:
    (turn,) = turns(written(tmp_path / "t.json", content))
    assert (turn.input, turn.actual_output) == ("q", "a")
