"""`make drift`: the newest releases of the libraries that write traces, each run for real and compared with the truth.

Every driver gets an environment of its own with the newest releases of its packages, has the talk of `scenario.py`
with the stand-in server, and its turns are held against what the server saw. The report says what conforms, and what
changed since the versions in VERSIONS.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capture import DRIVERS, capture, packages_of
from truth import complaints

from collector.commands.normalize import normalize

HERE = Path(__file__).parent
VERSIONS = HERE / "VERSIONS.md"
UV = HERE.parents[1] / ".tools" / "bin" / "uv"
_JS_BASE = (
    "openai", "zod", "@opentelemetry/api", "@opentelemetry/sdk-trace-node", "@opentelemetry/exporter-trace-otlp-proto",
    "@opentelemetry/resources", "@opentelemetry/instrumentation", "@arizeai/openinference-core",
)  # fmt: skip
_PYTHON_BASE = ("openai", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


@dataclass(frozen=True)
class Result:
    """What came of one library: its versions, how many turns, and everything in which they differ from the truth."""

    name: str
    versions: dict[str, str]
    turns: int
    complaints: tuple[str, ...]


def drivers() -> list[Path]:
    """The drivers, by name."""
    found = [each for suffix in ("py", "mjs", "go", "java", "rs") for each in DRIVERS.glob(f"*.{suffix}")]
    return sorted(each for each in found if not each.stem.startswith(("scenario", "talk")))


def install(driver: Path, folder: Path) -> Path:
    """An environment with the newest releases of a driver's packages.

    Raises:
        RuntimeError: they cannot be installed; says why.
    """
    packages = packages_of(driver)
    if driver.suffix == ".py":
        environment = folder / "venv"
        commands = [
            [str(UV), "venv", "-q", "--python", sys.executable, str(environment)],
            [
                str(UV),
                "pip",
                "install",
                "-q",
                "--python",
                str(environment / "bin" / "python"),
                *_PYTHON_BASE,
                *packages,
            ],
        ]
    elif driver.suffix == ".go":
        environment = folder
        shutil.copy(driver, folder / "main.go")
        commands = [
            ["go", "mod", "init", "driver"], ["go", "get", *(f"{each}@latest" for each in packages)],
            ["go", "mod", "tidy"], ["go", "build", "-trimpath", "-o", "driver", "."],
        ]  # fmt: skip
    elif driver.suffix == ".java":
        environment = folder
        (folder / "pom.xml").write_text(_pom(packages))
        commands = [
            ["mvn", "-q", "-B", "dependency:copy-dependencies"],
            ["javac", "-parameters", "-cp", "target/dependency/*", "-d", "target/classes", str(driver)],
        ]
        if any(package.startswith(_QUARKUS) for package in packages):
            sources = folder / "src" / "main" / "java" / "drift"
            sources.mkdir(parents=True)
            shutil.copy(driver, sources)
            commands = [["mvn", "-q", "-B", "package"]]
    elif driver.suffix == ".rs":
        environment = folder
        (folder / "src").mkdir()
        shutil.copy(driver, folder / "src" / "main.rs")
        (folder / "Cargo.toml").write_text(_cargo(packages))
        commands = [["cargo", "build", "-q"]]
    else:
        environment = folder
        (folder / "package.json").write_text("{}")
        commands = [["npm", "install", "--no-audit", "--no-fund", *_JS_BASE, *packages]]
    for command in commands:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
        if run.returncode:
            raise RuntimeError(f"not installed: {run.stderr[-500:]}")
    return environment


def _pom(packages: Sequence[str]) -> str:
    """A Maven project with packages, each `group:name:version`; one that ends in `:pom` is imported for its versions."""
    names = ("groupId", "artifactId", "version", "type")
    listed = {False: "", True: ""}
    for each in packages:
        fields = "".join(f"<{name}>{part}</{name}>" for name, part in zip(names, each.split(":"), strict=False))
        imported = each.endswith(":pom")
        scope = "<scope>import</scope>" if imported else ""
        listed[imported] += f"<dependency>{fields}{scope}</dependency>"
    quarkus = next((package.split(":")[2] for package in packages if package.startswith(_QUARKUS)), None)
    plugin = (
        "<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>"
        "<maven.compiler.parameters>true</maven.compiler.parameters></properties><build><plugins><plugin>"
        f"<groupId>io.quarkus</groupId><artifactId>quarkus-maven-plugin</artifactId><version>{quarkus}</version>"
        "<executions><execution><goals><goal>build</goal></goals></execution></executions></plugin></plugins></build>"
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>drift</groupId>'
        f"<artifactId>driver</artifactId><version>1</version>{plugin if quarkus else ''}"
        f"<dependencyManagement><dependencies>{listed[True]}</dependencies></dependencyManagement>"
        f"<dependencies>{listed[False]}</dependencies></project>"
    )


_QUARKUS = "io.quarkus:quarkus-bom:"


def _cargo(packages: Sequence[str]) -> str:
    """A Cargo project with the newest releases of packages; `name[a,b]` has these features, `-default` is without any."""
    lines = ['[package]\nname = "driver"\nversion = "0.1.0"\nedition = "2024"\n\n[dependencies]']
    for package in packages:
        name, _, features = package.rstrip("]").partition("[")
        chosen = [feature for feature in features.split(",") if feature]
        default = "false" if "-default" in chosen else "true"
        listed = ", ".join(f'"{feature}"' for feature in chosen if feature != "-default")
        lines.append(f'{name} = {{ version = "*", default-features = {default}, features = [{listed}] }}')
    return "\n".join(lines) + "\n"


def run(driver: Path, environment: Path, output: Path) -> Result:
    """Run one driver, and compare its turns with the truth."""
    capture(driver, environment, output)
    truth = json.loads((output / "expected.json").read_text())
    turns = list(normalize([output]))
    return Result(driver.stem, truth["libraries"], len(turns), tuple(complaints(truth, turns)))


def report(results: Sequence[Result], earlier: dict[str, str]) -> str:
    """A Markdown report: a line for each library, and below it what does not conform."""
    lines = ["| library | versions | conforms | changed since |", "| --- | --- | --- | --- |"]
    for each in results:
        versions = ", ".join(f"{name} {version}" for name, version in each.versions.items())
        before = earlier.get(each.name, "")
        changed = "new" if not before else "–" if before == versions else before
        lines.append(f"| {each.name} | {versions} | {'no' if each.complaints else 'yes'} | {changed} |")
    for each in results:
        lines += [f"\n{each.name}:", *(f"- {line}" for line in each.complaints)] if each.complaints else []
    return "\n".join(lines) + "\n"


def versions_in(page: str) -> dict[str, str]:
    """The versions of each library that a page's table has."""
    rows = re.findall(r"^\| ([a-z]\w*) \| ([^|]+) \|", page, re.MULTILINE)
    return {name: versions.strip() for name, versions in rows if name != "library"}


def main() -> int:
    """Print the report; 0 if everything conforms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="drivers; all without")
    parser.add_argument("--environment", type=Path, help="libraries that are there, instead of the newest ones")
    parser.add_argument("--output", type=Path, help="a folder for the payloads")
    options = parser.parse_args()
    results: list[Result] = []
    for driver in drivers():
        if options.names and driver.stem not in options.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            output = (options.output or Path(folder) / "payloads") / driver.stem
            try:
                environment = options.environment or install(driver, Path(folder))
                results.append(run(driver, environment.absolute(), output))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                results.append(Result(driver.stem, {}, 0, (f"did not run: {error}",)))
        print(f"{driver.stem}: {len(results[-1].complaints)} complaints", file=sys.stderr)
    earlier = versions_in(VERSIONS.read_text()) if VERSIONS.exists() else {}
    print(report(results, earlier), end="")
    return int(any(each.complaints for each in results))


if __name__ == "__main__":
    sys.exit(main())
