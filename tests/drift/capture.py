"""Runs one driver against the stand-in server and writes what its library sent, with the truth, into a folder."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import scenario
from google.protobuf.message import Message
from observed import as_json, truth
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from stand_in import Recording, stand_in

DRIVERS = Path(__file__).parent / "drivers"


def capture(driver: Path, environment: Path, output: Path, timeout: float = 300) -> Recording:
    """Run a driver with the libraries in `environment`, and write its payload to `output`.

    Raises:
        RuntimeError: the driver failed, or nothing came; says what it printed last.
    """
    with stand_in() as recording, tempfile.TemporaryDirectory() as folder:
        script = _prepare(driver, environment, Path(folder), recording.port)
        run = subprocess.run(
            script, env=_variables(environment, Path(folder), recording.port), cwd=folder, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
    if run.returncode or not recording.exports:
        raise RuntimeError(
            f"{driver.name}: status {run.returncode}, {len(recording.exports)} exports: {run.stderr[-1500:]}"
        )
    private = (environment, Path(folder), DRIVERS, Path(sys.base_prefix), Path.home())
    expected = truth(output.name, versions_of(driver, environment), recording)
    for step, heard in re.findall(r"^heard: (\w+): (.+)$", driver.read_text(), re.MULTILINE):
        next(exchange for exchange in expected["exchanges"] if exchange["exchange"] == step)["assistant"] = heard
    _write(output, expected, recording, private)
    return recording


def _prepare(driver: Path, environment: Path, folder: Path, port: int) -> list[str]:
    """Write the scenario for the driver, put the driver beside its libraries, and return its command."""
    values = {
        "origin": f"http://127.0.0.1:{port}", "base": f"http://127.0.0.1:{port}/v1", "service": driver.stem.replace("_", "-"),
        "system": scenario.SYSTEM, "rag_system": scenario.RAG_SYSTEM, "rag_prompt": scenario.RAG_PROMPT,
        "questions": scenario.QUESTIONS, "tool": scenario.TOOL_CALL, "tool_definition": scenario.TOOL_DEFINITION,
        "results": {call["arguments"]["place"]: call["result"] for calls in scenario.TOOL_CALLS.values() for call in calls},
        "documents": scenario.DOCUMENTS,
        "conversation": scenario.CONVERSATION, "conversations": scenario.CONVERSATIONS, "user": scenario.USER,
    }  # fmt: skip
    (folder / "scenario.json").write_text(json.dumps(values))
    if driver.suffix == ".py":
        return [str(environment / "bin" / "python"), str(driver)]
    if driver.suffix == ".go":
        return [str(environment / "driver")]
    if driver.suffix == ".rs":
        return [str(environment / "target" / "debug" / "driver")]
    if driver.suffix == ".java" and (environment / "target" / "quarkus-app").exists():
        return ["java", "-jar", f"{environment}/target/quarkus-app/quarkus-run.jar"]
    if driver.suffix == ".java":
        return [
            "java",
            "-cp",
            f"{environment}/target/classes:{environment}/target/dependency/*",
            f"drift.{driver.stem}",
        ]
    for source in DRIVERS.glob("*.mjs"):
        shutil.copy(source, folder)
    (folder / "node_modules").symlink_to(environment / "node_modules")
    return ["node", str(folder / driver.name)]


def _variables(environment: Path, folder: Path, port: int) -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    origin = f"http://127.0.0.1:{port}"
    return {
        **passed, "PATH": f"{environment / 'bin'}:{os.environ.get('PATH', '')}", "DRIFT_SCENARIO": str(folder / "scenario.json"),
        "PYTHONPATH": str(DRIVERS), "OPENAI_BASE_URL": f"{origin}/v1", "OPENAI_API_BASE": f"{origin}/v1", "OPENAI_API_KEY": "none",
        "OTEL_EXPORTER_OTLP_ENDPOINT": origin, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true", "OTEL_METRICS_EXPORTER": "none",
        "PYTHONDONTWRITEBYTECODE": "1", "DO_NOT_TRACK": "1",
    }  # fmt: skip


def packages_of(driver: Path) -> list[str]:
    """The packages that a driver says it needs: the line `packages: …` at its beginning."""
    line = next(each for each in driver.read_text().splitlines() if each.lstrip("#/ ").startswith("packages: "))
    return line.partition("packages: ")[2].split()


def versions_of(driver: Path, environment: Path) -> dict[str, str]:
    """The installed versions of a driver's packages."""
    versions: dict[str, str] = {}
    if driver.suffix == ".go":
        required = (line.removeprefix("require").split() for line in (environment / "go.mod").read_text().splitlines())
        chosen = {words[0]: words[1].removeprefix("v") for words in required if len(words) > 1}
        return {name: chosen.get(name, "?") for name in packages_of(driver)}
    if driver.suffix == ".java":
        named = (package.split(":") for package in packages_of(driver))
        return {name: version[0] for _, name, *version in named if version}
    if driver.suffix == ".rs":
        locked = re.findall(r'name = "(.+)"\nversion = "(.+)"', (environment / "Cargo.lock").read_text())
        names = {package.partition("[")[0] for package in packages_of(driver)}
        return {name: version for name, version in locked if name in names}
    for package in packages_of(driver):
        name = re.split(r"[\[!=<>]", package)[0]
        if driver.suffix == ".py":
            found = next(environment.glob(f"lib/*/site-packages/{name.replace('-', '_')}-*.dist-info"), None)
            versions[name] = found.name.removesuffix(".dist-info").partition("-")[2] if found else "?"
        else:
            manifest = environment / "node_modules" / name / "package.json"
            versions[name] = json.loads(manifest.read_text())["version"]
    return versions


def _write(output: Path, expected: object, recording: Recording, private: Sequence[Path]) -> None:
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for number, (signal, body) in enumerate(recording.exports, 1):
        (output / f"{number:03}-{signal}.pb").write_bytes(_scrub(signal, body, [str(each) for each in private]))
    (output / "expected.json").write_text(as_json(expected))


def _scrub(signal: str, body: bytes, private: Sequence[str]) -> bytes:
    """A request without what names this machine; as it was where nothing does."""
    request = ExportLogsServiceRequest() if signal == "logs" else ExportTraceServiceRequest()
    request.ParseFromString(body)
    changed = False
    for resource in request.resource_logs if signal == "logs" else request.resource_spans:
        own = [each for each in resource.resource.attributes if each.key.startswith(_OF_MACHINES)]
        for each in own:
            resource.resource.attributes.remove(each)
        changed = changed or bool(own)
    for holder, field in _texts_in(request):
        text = getattr(holder, field)
        for path in private:
            text = text.replace(path, "BASE")
        if text != getattr(holder, field):
            setattr(holder, field, text)
            changed = True
    return request.SerializeToString() if changed else body


_OF_MACHINES = ("host.", "process.", "os.")


def _texts_in(message: Message) -> Iterator[tuple[Message, str]]:
    """Every text in a request, as its message and field: values of attributes, names, and why a span failed."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING and not field.is_repeated:
            yield message, field.name
        elif field.type == field.TYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                yield from _texts_in(each)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driver", type=Path)
    parser.add_argument("environment", type=Path, help="a virtual environment, or a folder with node_modules")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    seen = capture(options.driver.resolve(), options.environment.resolve(), options.output)
    sys.stderr.write(
        f"{len(seen.calls)} calls, {len(seen.exports)} exports, unknown: {sorted(set(seen.unknown))[:5]}\n"
    )
