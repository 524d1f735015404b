"""What the image is made of: pinned by hash, and to be had for both architectures without a compiler."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from tools import DEPLOY, ROOT

LOCK = {each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
BUILD = (DEPLOY / "image" / "build.txt").read_text()
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PYTHONS = ("cp311", "cp312", "cp313")


def _installed() -> Iterator[str]:
    """The packages of the image: evalstream's, with those of its extra for gRPC, and all that they need."""
    itself = LOCK["evalstream"]
    waiting = [each["name"] for each in (*itself["dependencies"], *itself["optional-dependencies"]["grpc"])]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        package = LOCK[name]
        extras = (each for group in package.get("optional-dependencies", {}).values() for each in group)
        waiting += [each["name"] for each in (*package.get("dependencies", ()), *extras) if each["name"] in LOCK]


def _fits(wheel: str, python: str, machine: str) -> bool:
    """Whether pip takes the wheel on Debian 12 (glibc 2.36)."""
    tags, abi, platforms = wheel.removesuffix(".whl").split("-")[-3:]
    newest_stable = max((int(each[3:]) for each in re.findall(r"cp3\d+", tags)), default=0)
    pythonic = tags.startswith("py") or tags == python or (abi == "abi3" and newest_stable <= int(python[3:]))
    glibcs = [int(each) for each in re.findall(rf"manylinux_2_(\d+)_{machine}", platforms)]
    fits = platforms == "any" or f"manylinux2014_{machine}" in platforms or any(each <= 36 for each in glibcs)
    return pythonic and fits


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_a_wheel(machine: str, python: str):
    names = sorted(set(_installed()))
    assert len(names) > 50
    wheels = {name: [each["url"].rpartition("/")[2] for each in LOCK[name].get("wheels", [])] for name in names}
    assert [name for name in names if not any(_fits(each, python, machine) for each in wheels[name])] == []


def test_every_file_has_a_hash():
    for name in _installed():
        files: list[dict[str, Any]] = [
            *LOCK[name].get("wheels", []),
            *([LOCK[name]["sdist"]] if "sdist" in LOCK[name] else []),
        ]
        assert files, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each["hash"]) for each in files), name


def test_what_builds_is_pinned_by_hash_too():
    blocks = re.findall(r"(?m)^([a-z-]+)==(\S+)(?: ; .+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", BUILD)
    assert len(blocks) == len(re.findall(r"(?m)^[^\s#]", BUILD)), "no line without hashes"
    pinned = {name: version for name, version, _ in blocks}
    wanted = dict(re.findall(r"(?m)^([a-z-]+)==(\S+)", (DEPLOY / "image" / "build.in").read_text()))
    assert wanted.items() <= pinned.items(), "run the command at the top of build.txt"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert [re.split(r"[<>=]", each)[0] for each in needed] == ["hatchling"]


def test_nothing_is_installed_without_hashes():
    installs = [
        line for line in re.sub(r"\\\n", "", DOCKERFILE).splitlines() if re.search(r"pip install|uv sync|uv pip", line)
    ]
    assert len(installs) == 3
    for line in installs:
        assert re.search(r"--require-hashes|uv sync --locked|--offline --no-deps", line), line


def test_types_of_what_is_compiled_are_checked_without_compiling():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["mypy"]["files"] == tool["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    assert "bin/mypy" in (ROOT / "Makefile").read_text()


def test_what_is_compiled_has_no_cached_properties():
    """The compiler calls what they hold as a method of the class, and fails where that is a function."""
    custom = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "hooks"
    ]["custom"]
    compiled = {path for pattern in custom["modules"] for path in ROOT.glob(pattern)}
    compiled -= {ROOT / name for name in custom["interpreted"]}
    assert len(compiled) > 50
    assert [str(path) for path in sorted(compiled) if "cached_property" in path.read_text()] == []
