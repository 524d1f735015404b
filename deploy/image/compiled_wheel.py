"""The build hook of the compiled wheel: what pyproject.toml lists as `modules` is compiled by mypyc, beside its source.

It is off unless HATCH_BUILD_HOOKS_ENABLE=1 asks for it, so that an installation needs no compiler. It works on a copy:
nothing is left beside the sources, where Python would take it in their place. Started as a program, in that copy, it
compiles the files that it is given.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("collector", "evaluators")
OPTIMIZATION = "1"
"""Of the C compiler."""


class CompiledWheel(BuildHookInterface[Any]):
    """Puts extension modules into a wheel, which then fits one Python on one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile. An editable installation runs the sources, whatever is asked for."""
        if version == "editable":
            return
        self._copy = TemporaryDirectory(prefix="evalstream-compiled-")
        folder = Path(self._copy.name)
        for name in PACKAGES:
            shutil.copytree(Path(self.root) / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        files = listed(folder, self.config["modules"], self.config["interpreted"])
        subprocess.run([sys.executable, __file__, *files], cwd=folder, check=True)  # noqa: S603 - this file
        made = [path.relative_to(folder) for path in folder.rglob("*.so")]
        build_data["force_include"] |= {str(folder / each): str(each) for each in made if each.parts[0] != "build"}
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        del version, build_data, artifact_path
        if hasattr(self, "_copy"):
            self._copy.cleanup()


def listed(root: Path, modules: list[str], interpreted: list[str]) -> list[str]:
    """The files that are compiled: those of `modules`, patterns of paths, but for those of `interpreted`.

    Raises:
        ValueError: a pattern fits nothing.
    """
    files: set[str] = set()
    for pattern in modules:
        files |= _matching(root, pattern)
    for pattern in interpreted:
        files -= _matching(root, pattern)
    return sorted(each for each in files if not each.endswith("__init__.py"))


def _matching(root: Path, pattern: str) -> set[str]:
    matching = {path.relative_to(root).as_posix() for path in root.glob(pattern)}
    if not matching:
        raise ValueError(
            f"no module fits {pattern}: correct tool.hatch.build.targets.wheel.hooks.custom in pyproject.toml"
        )
    return matching


def compile_files(files: list[str]) -> None:
    """Compile modules of the working directory, in place."""
    from mypyc.build import mypycify
    from setuptools import setup

    extensions = mypycify(
        ["--ignore-missing-imports", "--follow-imports=silent", *files],
        opt_level=OPTIMIZATION,
        debug_level="0",  # symbols would be two fifths of the library
        multi_file=True,
    )
    setup(name="evalstream", packages=[], ext_modules=extensions, script_args=["--quiet", "build_ext", "--inplace"])


if __name__ == "__main__":
    compile_files(sys.argv[1:])
