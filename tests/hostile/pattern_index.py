"""Every pattern over text in the code base, found in the source itself, so that none can be forgotten."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("collector", "evaluators")
FUNCTIONS = {"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}

IN_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "evaluators/texts/language.py:_frequent_words": (r"[äłñ]",),  # the letters of a file, one class of characters
    "evaluators/answers/reply_parser.py:_refuse_repeated_keys": (r"[\"'](?:score|reason)[\"']\s*:",),
}
"""Uses of `re` inside a function, with the patterns they use where those are in no namespace."""


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the packages, by its dotted name."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return MappingProxyType(found)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _naming(word: str) -> Iterator[tuple[str, Path]]:
    """The modules that have a word: without it in its text no node of a module has that name."""
    for name, path in modules().items():
        if re.search(rf"\b{word}\b", path.read_text(encoding="utf-8")):
            yield name, path


def uses_in_functions() -> set[str]:
    """Where functions use `re`, as `path:function`."""
    uses: set[str] = set()
    for _, path in _naming("re"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(map(_is_use, ast.walk(node))):
                uses.add(f"{path.relative_to(ROOT)}:{node.name}")
    return uses


def uses_in_modules() -> dict[str, int]:
    """How many patterns each module compiles where it is imported."""
    counts: dict[str, int] = {}
    for name, path in _naming("re"):
        tree = tree_of(path)
        functions = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.walk(node)
        }
        count = sum(_is_use(node) and id(node) not in functions for node in ast.walk(tree))
        if count:
            counts[name] = count
    return counts


def imports_by_name() -> set[str]:
    """Modules that import functions of `re` by name, or `re` under another: their uses would not be seen."""
    hidden: set[str] = set()
    for name, path in (*_naming("re"), *_naming("regex"), *_naming("sre_compile")):
        for node in ast.walk(tree_of(path)):
            aliases = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            from_re = isinstance(node, ast.ImportFrom) and node.module in {"re", "regex", "sre_compile"}
            if from_re or any(each.name in {"re", "regex"} and each.asname for each in aliases):
                hidden.add(name)
    return hidden


def backtracking_engines() -> set[str]:
    """Modules that ask pydantic for Python's engine instead of Rust's."""
    return {name for name, path in modules().items() if "python-re" in path.read_text(encoding="utf-8")}


@cache
def compiled() -> Mapping[str, Mapping[str, re.Pattern[Any]]]:
    """The patterns in every module's namespace, by module and name, however deep in mappings, tuples and objects."""
    found: dict[str, dict[str, re.Pattern[Any]]] = {}
    for name in modules():
        if name == "collector.redact.presidio":
            continue
        patterns = found[name] = {}
        for key, value in vars(importlib.import_module(name)).items():
            for at, pattern in enumerate(_patterns(value, name, set())):
                patterns[f"{key}[{at}]"] = pattern
    return found


def methods_of(module: str, name: str) -> set[str]:
    """The methods by which a module uses the pattern of a name; all of them where it also passes the pattern on."""
    tree = tree_of(modules()[module])
    loads = {
        id(node): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    }
    methods = {
        id(node.value): node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and id(node.value) in loads
    }
    known = loads and len(methods) == len(loads) and name.startswith("_")
    return set(methods.values()) & FUNCTIONS if known else FUNCTIONS


def texts_in(module: str) -> tuple[str, ...]:
    """The texts in a module's code that may be names of attributes."""
    texts = {
        node.value
        for node in ast.walk(tree_of(modules()[module]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return tuple(sorted(each for each in texts if re.fullmatch(r"[a-z][\w.]{2,59}", each)))


def _is_use(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def _patterns(value: Any, module: str, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):  # equal ones may be one object
        yield value
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for item in value.values():
            yield from _patterns(item, module, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _patterns(item, module, seen)
    elif getattr(value, "__module__", None) == module or type(value).__module__ == module:
        names = {*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())}
        for name in names:
            yield from _patterns(getattr(value, name, None), module, seen)
