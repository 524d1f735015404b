"""The public names of the library: in `evaluators/__init__.py` for Python, in `__init__.pyi` for type checkers."""

# ruff: noqa: INP001 - a script beside the pages that it writes

import ast
from pathlib import Path

from evaluators.catalogue import load_evaluators

PATH = Path(__file__).parents[1] / "evaluators" / "__init__.py"
STUB = PATH.with_suffix(".pyi")
_BEGIN, _END = "_HOMES = {\n", "}\n"
_EVALUATORS = ("evaluators.conversation.", "evaluators.turn.")


def document() -> str:
    """The module as it should be: every evaluator of ours is a name of it; the other names stay as they are."""
    before, _, rest = PATH.read_text(encoding="utf-8").partition(_BEGIN)
    homes = _homes()
    modules = "".join(f'    "{name}": "{homes[name].removeprefix("evaluators.")}",\n' for name in sorted(homes))
    return f"{before}{_BEGIN}{modules}{_END}{rest.partition(_END)[2]}"


def stub() -> str:
    """The types of the same names."""
    by_module = sorted((home, name) for name, home in _homes().items())
    imports = (f"from {home} import {name} as {name}\n" for home, name in by_module)
    return "# Written by `make reference`.\n" + "".join(imports)


def _homes() -> dict[str, str]:
    """The module of each public name: those of evaluators by their entry points, the others as they are written."""
    tree = ast.parse(PATH.read_text(encoding="utf-8"))
    values = (node.value for node in tree.body if isinstance(node, ast.Assign))
    written = ast.literal_eval(next(value for value in values if isinstance(value, ast.Dict)))
    others = {name: f"evaluators.{home}" for name, home in written.items()}
    classes = [cls for cls in load_evaluators().values() if cls.__module__.startswith(_EVALUATORS)]
    return {name: home for name, home in others.items() if not home.startswith(_EVALUATORS)} | {
        cls.__name__: cls.__module__ for cls in classes
    }
