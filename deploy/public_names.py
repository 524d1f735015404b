"""The public names of the library, written into `evaluators/__init__.py`: evaluators by their entry points."""

# ruff: noqa: INP001 - a script beside the pages that it writes

from __future__ import annotations

import ast
from pathlib import Path

from evaluators.catalogue import load_evaluators

PATH = Path(__file__).parents[1] / "evaluators" / "__init__.py"
_BEGIN, _END = "if TYPE_CHECKING:\n", '"""The module of each public name."""\n'
_EVALUATORS = ("evaluators.conversation.", "evaluators.turn.")
_WIDTH = 120


def document() -> str:
    """The module as it should be: every evaluator of ours is a name of it; the other names stay as they are."""
    text = PATH.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    homes = {name: home for name, home in _imported(text).items() if not home.startswith(_EVALUATORS)}
    homes |= {
        cls.__name__: cls.__module__ for cls in load_evaluators().values() if cls.__module__.startswith(_EVALUATORS)
    }
    names = {home: sorted(name for name in homes if homes[name] == home) for home in sorted(set(homes.values()))}
    public = "".join(f'    "{name}",\n' for name in sorted(homes))
    modules = "".join(f'    "{name}": "{homes[name].removeprefix("evaluators.")}",\n' for name in sorted(homes))
    imports = "".join(_import(home, group) for home, group in names.items())
    return f"{before}{_BEGIN}{imports}\n__all__ = [\n{public}]\n\n_HOMES = {{\n{modules}}}\n{_END}{after}"


def _imported(text: str) -> dict[str, str]:
    """The names that are imported for type checkers, with the module of each."""
    blocks = [node for node in ast.parse(text).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names if node.module is not None}


def _import(module: str, names: list[str]) -> str:
    line = f"    from {module} import {', '.join(names)}\n"
    if len(line) <= _WIDTH + 1:
        return line
    return f"    from {module} import (\n" + "".join(f"        {name},\n" for name in names) + "    )\n"
