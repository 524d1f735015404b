"""The compiled wheel for the benchmarks, as `make compiled` and the image build it: a folder to put before everything."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "bench-compiled"
TOOLS = ROOT / "deploy" / "image" / "build.txt"


def compiled_site() -> Path | None:
    """The folder, built anew where a source has changed; None, with a sentence on stderr, where that fails."""
    ready, site = FOLDER / ".ready", FOLDER / "site"
    wanted = _digest()
    if ready.exists() and ready.read_text() == wanted:
        return site
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = FOLDER / "tools" / "bin" / "python"
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    try:
        _run(uv, "venv", "-q", "--python", sys.executable, FOLDER / "tools")
        _run(uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", TOOLS)
        _run(python.parent / "hatchling", "build", "-t", "wheel", "-d", FOLDER, HATCH_BUILD_HOOKS_ENABLE="1")
        (wheel,) = FOLDER.glob("*.whl")
        with ZipFile(wheel) as archive:
            archive.extractall(site)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = (getattr(error, "stderr", "") or type(error).__name__).strip().rpartition("\n")[2]
        print(f"the compiled wheel cannot be built ({why})", file=sys.stderr)
        return None
    ready.write_text(wanted)
    return site


def environment(site: Path | None) -> dict[str, str]:
    """That of a process, and of all that it starts, which runs what is in the folder; of this one without a folder."""
    path = {} if site is None else {"PYTHONPATH": f"{site}{os.pathsep}{Path(__file__).parent}", "PYTHONSAFEPATH": "1"}
    return os.environ | path


def _run(*command: str | Path, **more: str) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ | more)


def _digest() -> str:
    """Of all that the wheel is made of."""
    digest = hashlib.sha256(sys.version.encode())
    for each in _sources():
        digest.update(each.relative_to(ROOT).as_posix().encode() + b"\0" + each.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield from (ROOT / "pyproject.toml", TOOLS, TOOLS.with_name("compiled_wheel.py"))
    for package in ("collector", "evaluators"):
        yield from sorted(each for each in (ROOT / package).rglob("*") if each.suffix in {".py", ".txt"})
