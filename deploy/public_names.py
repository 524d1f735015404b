"""The public names of the library and their modules: `evaluators/__init__.pyi`, for type checkers and for Python."""

# ruff: noqa: INP001 - a script beside the pages that it writes

import re
from pathlib import Path

from evaluators.catalogue import load_evaluators

STUB = Path(__file__).parents[1] / "evaluators" / "__init__.pyi"
_IMPORT = re.compile(r"^from (\S+) import (\w+)", re.MULTILINE)
_EVALUATORS = ("evaluators.conversation.", "evaluators.turn.")


def stub() -> str:
    """The stub as it should be: every evaluator of ours is a name of it; the other names stay as they are."""
    written = _IMPORT.findall(STUB.read_text(encoding="utf-8"))
    classes = [cls for cls in load_evaluators().values() if cls.__module__.startswith(_EVALUATORS)]
    homes = {name: home for home, name in written if not home.startswith(_EVALUATORS)} | {
        cls.__name__: cls.__module__ for cls in classes
    }
    by_module = sorted((home, name) for name, home in homes.items())
    imports = (f"from {home} import {name} as {name}\n" for home, name in by_module)
    return "# Written by `make reference`.\n" + "".join(imports)
