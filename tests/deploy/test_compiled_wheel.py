"""The compiled wheel: built with what deploy/image/build.txt pins, and judged by the tests of what is compiled in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from tools import DEPLOY, ROOT

pytestmark = pytest.mark.timeout(1800)

TESTS = (
    "tests/golden", "tests/hostile/test_fuzz.py", "tests/property", "tests/unit/assemble", "tests/unit/dialects", "tests/unit/evaluate",
    "tests/unit/evaluators", "tests/unit/link", "tests/unit/otlp", "tests/unit/receive", "tests/unit/records", "tests/unit/redact",
)  # fmt: skip
NAMES = "import collector.assemble.turns as a, collector.otlp.decode as b; print(a.__file__, b.__file__)"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's files, which stands before everything else where PYTHONPATH names it."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not (shutil.which(compiler) and Path(sysconfig.get_path("include"), "Python.h").exists()):
        pytest.skip("needs a C compiler and Python's headers")
    folder = tmp_path_factory.mktemp("compiled")
    venv.create(folder / "build", with_pip=True)
    pip = (folder / "build" / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    _run(*pip, "--only-binary", ":all:", "--require-hashes", "--requirement", DEPLOY / "image" / "build.txt")
    before = _extensions(ROOT)
    _run(
        folder / "build" / "bin" / "hatchling", "build", "--target", "wheel", "--directory", folder / "dist",
        HATCH_BUILD_HOOKS_ENABLE="1",
    )  # fmt: skip
    assert _extensions(ROOT) == before, "nothing stays beside the sources"
    (wheel,) = (folder / "dist").glob("*.whl")
    assert not wheel.name.endswith("-none-any.whl"), wheel.name
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.long
def test_it_is_compiled_and_says_so(installed: Path):
    files = [Path(each) for each in _with(installed, "-c", NAMES).split()]
    assert all(each.is_relative_to(installed) and each.suffix == ".so" for each in files), files
    command = "from evalstream_launcher import main; import sys; sys.argv = ['evalstream', '--version']; main()"
    assert _with(installed, "-c", command).endswith(", compiled")


@pytest.mark.nightly  # thousands of tests, once more
def test_it_passes_the_tests_of_what_is_compiled(installed: Path):
    options = ("-q", "-p", "no:cacheprovider", "-m", "not long and not nightly", "--numprocesses", "2")
    _with(installed, "-m", "pytest", *options, *TESTS)


def _with(installed: Path, *arguments: str) -> str:
    """What Python prints with the wheel's modules instead of those of the project's folder."""
    return _run(sys.executable, *arguments, PYTHONPATH=str(installed), PYTHONSAFEPATH="1")


def _extensions(root: Path) -> list[Path]:
    return sorted(
        [*root.glob("*.so"), *(each for name in ("collector", "evaluators") for each in (root / name).rglob("*.so"))]
    )


def _run(*command: str | Path, **environment: str) -> str:
    """What a command prints, started in the project; that it fails is a failure."""
    done = subprocess.run(
        [*map(str, command)], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()
