"""The parts of `make drift`: a driver's payload with its truth, what is taken out of it, and the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from capture import capture, packages_of
from drift import VERSIONS, Result, drivers, report, versions_in
from truth import complaints

from collector.commands.normalize import normalize

DRIVER = '''
"""One turn and a failure, written by hand. packages: opentelemetry-sdk"""
# packages: opentelemetry-sdk
import json, os, urllib.error, urllib.request
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

scenario = json.load(open(os.environ["DRIFT_SCENARIO"]))
provider = TracerProvider(resource=Resource({"host.name": "secret-host", "service.name": "driver"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
for step in ("turn1", "fail"):
    messages = [{"role": "system", "content": scenario["system"]}, {"role": "user", "content": scenario["questions"][step]}]
    with provider.get_tracer("x").start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("code.file", __file__)
        span.set_attribute("gen_ai.conversation.id", scenario["conversations"].get(step, scenario["conversation"]))
        span.set_attribute("gen_ai.input.messages", json.dumps(messages))
        body = json.dumps({"model": "m", "messages": messages}).encode()
        request = urllib.request.Request(scenario["base"] + "/chat/completions", body, {"content-type": "application/json"})
        try:
            answer = json.load(urllib.request.urlopen(request))
        except urllib.error.HTTPError as error:
            span.set_status(__import__("opentelemetry.trace", fromlist=["x"]).StatusCode.ERROR, str(error))
        else:
            span.set_attribute("gen_ai.output.messages", json.dumps([answer["choices"][0]["message"]]))
            span.set_attribute("gen_ai.usage.input_tokens", 41)
            span.set_attribute("gen_ai.usage.output_tokens", 17)
'''


def test_a_captured_payload_comes_to_its_truth_and_names_no_machine(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    driver, output = tmp_path / "plain.py", tmp_path / "payload"
    driver.write_text(DRIVER)
    recording = capture(driver, Path(sys.prefix), output)
    assert (len(recording.calls), recording.unknown) == (2, [])
    truth = json.loads((output / "expected.json").read_text())
    assert [each["exchange"] for each in truth["exchanges"]] == ["turn1", "fail"]
    assert truth["libraries"]["opentelemetry-sdk"][0].isdigit()
    turns = list(normalize([output]))
    assert complaints(truth, turns) == []
    assert len(turns) == 2
    payload = b"".join(each.read_bytes() for each in output.glob("*.pb"))
    assert b"secret-host" not in payload


def test_a_driver_that_fails_says_why(tmp_path: Path) -> None:
    driver = tmp_path / "broken.py"
    driver.write_text("# packages: opentelemetry-sdk\nraise SystemExit('no such option')\n")
    with pytest.raises(RuntimeError, match="no such option"):
        capture(driver, Path(sys.prefix), tmp_path / "payload")


def test_the_report_says_what_changed() -> None:
    results = [Result("one", {"a": "1.0"}, 5, ()), Result("two", {"b": "2.0"}, 4, ("turn1: system prompt None",))]
    text = report(results, {"one": "a 1.0", "two": "b 1.9"})
    assert "| one | a 1.0 | yes | – |" in text
    assert "| two | b 2.0 | no | b 1.9 |" in text
    assert "- turn1: system prompt None" in text
    assert versions_in(text) == {"one": "a 1.0", "two": "b 2.0"}


@pytest.mark.parametrize("driver", drivers(), ids=lambda driver: driver.stem)
def test_each_driver_names_its_packages(driver: Path) -> None:
    assert packages_of(driver)


def test_the_page_installs_what_ran_last() -> None:
    """No page had an install line of an instrumentation that anybody had tried."""
    page = (Path(__file__).parents[2] / "deploy" / "docs" / "start-traces.md").read_text()
    ran = versions_in(VERSIONS.read_text())["instrumented_openai"]
    installed = [f"{name}=={version}" for name, version in (each.split() for each in ran.split(", "))]
    assert f"\npip install {' '.join(installed)}\n" in page
    (driver,) = [each for each in drivers() if each.stem == "instrumented_openai"]
    assert [name.partition("==")[0] for name in installed] == packages_of(driver)
