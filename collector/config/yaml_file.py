"""Plain values of a YAML file: loaded safely, `${env:NAME}` replaced."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from collector.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
MAX_VALUES = 30_000
"""Keys and values together: a file of as many is read within seconds."""
LONGEST_NUMBER = 64
"""Characters: whole numbers beyond are read in quadratic time, those in base 60 (`1:30:00`) among them."""
_HIDDEN_FROM = 8
"""Characters from which on a variable's value is hidden: shorter ones stand everywhere."""

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_AT_KEY = re.compile(rf"""(?:(username|api_key|secret_key|password|secret|tokens?): \[?['"]?)?{_REFERENCE.pattern}""")
"""A reference, with the key before it if that one's value is no secret, or is a secret that is printed nowhere."""

_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

_WHOLE = re.compile(
    r"\$(?:\{[^{}]*\}|\([^()]*\)|(?:env:)?[A-Z_][A-Z0-9_]*)|%[A-Z_][A-Z0-9_]*%|(?:os\.environ/|env:|process\.env\.)[A-Z_][A-Z0-9_]*"
    r"|\{\{ *(?:env\.|\$)?[A-Z_][A-Z0-9_]* *\}\}"
)
"""A value that is meant to be replaced as a whole, as shells and other programs write it."""


class _UnsafeYaml(ValueError):
    """Valid YAML that is refused."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(f"line {mark.line + 1}, column {mark.column + 1}: {problem}")


def read(path: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read a configuration file.

    Raises:
        ConfigError: the file cannot be read or is not a YAML mapping, or an environment variable in it is not set.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # a device has no end
    except OSError as error:
        reason, remedy = "it is no file" if str(path) == "-" else error.strerror, "name the file with -c"
        if not path.exists():
            remedy += ", or write one with evalstream init"
        raise ConfigError(f"{path}: cannot be read ({reason}); {remedy}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than 1 MiB; name a configuration file with -c")
    return substitute(parse(data, str(path)), str(path), environment if environment is not None else os.environ)


def parse(data: bytes, name: str) -> dict[str, Any]:
    """YAML bytes as a mapping; `name` is what errors call the file."""
    try:
        _refuse_unsafe(data)
        value: Any = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        quotes = '; “ and ” are no quotes in YAML: write "' if any(map(data.__contains__, _CURLED)) else ""
        raise ConfigError(f"{name}: is not valid YAML: {_yaml_problem(error)}{quotes}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: must be a mapping with keys such as judges, evaluators, monitors")
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def hidden_values(files: Iterable[Path]) -> Callable[[str], str]:
    """Takes the values of files' environment variables out of what is printed: `${env:NAME}` stands there again.

    The name of a user stays: it is no secret, and often a word that stands elsewhere. So does a key or password of
    letters alone, as trials have: it is printed nowhere, so where this word stands, it is another's.
    """
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    places = {(match[1], match[2]) for text in texts for match in _AT_KEY.finditer(text)}
    names = {name for key, name in places if not (key and (key == "username" or os.environ.get(name, "").isalpha()))}
    values = {os.environ[name]: name for name in sorted(names) if len(os.environ.get(name, "")) >= _HIDDEN_FROM}
    values.pop("evalstream", None)  # it stands everywhere, too

    def hide(text: str) -> str:
        for value in sorted(values, key=len, reverse=True):
            text = text.replace(value, f"${{env:{values[value]}}}")
        return text

    return hide


def unset_variables(path: Path, section: str) -> list[str]:
    """The environment variables in a section of a file (`judges.main`) that have no value here."""
    value: Any = parse(path.read_bytes(), str(path)) if path.is_file() else {}
    for key in section.split("."):
        value = value.get(key, {})
    return sorted({match[1] for match in _REFERENCE.finditer(str(value)) if not os.environ.get(match[1])})


def _refuse_unsafe(data: bytes) -> None:
    """Refuse aliases and deep nesting, which can blow up, and duplicate keys: one of their values would be lost."""
    depth = values = 0
    for event in yaml.parse(data, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        values += isinstance(event, yaml.ScalarEvent)
        if values > MAX_VALUES:
            raise _UnsafeYaml(f"holds more than {MAX_VALUES:,} keys and values; name a configuration", event.start_mark)
        if depth > MAX_DEPTH:
            raise _UnsafeYaml(f"nested more than {MAX_DEPTH} levels deep; write it flatter", event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise _UnsafeYaml("aliases (*name) are not supported; write the value out", event.start_mark)
    nodes: list[yaml.Node | None] = [yaml.compose(data, Loader=yaml.SafeLoader)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            _refuse_double_keys(node)
            nodes += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif node is not None and node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise _UnsafeYaml("a number of so many characters is none; write it in quotes", node.start_mark)


def _refuse_double_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag == "tag:yaml.org,2002:bool":
            raise _UnsafeYaml(f"the key {key.value} is true or false in YAML; write it in quotes", key.start_mark)
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise _UnsafeYaml(f"the key {key.value!r} occurs twice; keep one", key.start_mark)
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)


def _yaml_problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        problem = next((ours for theirs, ours in _PLAIN.items() if theirs in str(error.problem)), error.problem)
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    if isinstance(error, yaml.reader.ReaderError | UnicodeDecodeError):
        return "it is not UTF-8 text; save it as UTF-8"
    return str(error).splitlines()[0] if str(error) else "it is nested too deeply; write it flatter"


_CURLED = tuple(sign.encode() for sign in "“”„")
_PLAIN = {
    "'\\t' that cannot start": "a tab indents this line; use spaces",
    "mapping values are not allowed": "a second colon in a line; begin a new line, or write the text in quotes",
    "expected <block end>": "the indentation differs from that of the lines before; indent what belongs together alike",
    "could not find expected ':'": "a key without a colon; write key: value",
    "while scanning a quoted scalar": "a quote is not closed; close it",
    "unexpected end of stream": "a quote or a bracket is not closed; close it",
    "but got '?'": "a question mark within brackets; write the text in quotes",
    "but got ':'": "a bracket is not closed, a comma is missing, or a text with a colon is not in quotes",
    "but got '{'": 'a comma is missing, or a text with { is not in quotes; write it like "${env:NAME}"',
    "expected ',' or": "a bracket is not closed, or a comma is missing",
    "cannot start any token": "a sign that begins no text; write the text in quotes",
    "unknown escape character": "in double quotes \\ begins an escape; write the text in single quotes",
    "found another document": "--- begins a second document; keep one",
}
"""Parts of what YAML's reader says, with the meaning in a configuration."""


def substitute(value: Any, name: str, environment: Mapping[str, str], path: str = "") -> Any:
    """Replace `${env:NAME}` and `${env:NAME:-default}` in every text; values only, never keys."""
    if isinstance(value, dict):
        return {key: substitute(item, name, environment, f"{path}.{key}".lstrip(".")) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [substitute(item, name, environment, f"{path}[{index}]") for index, item in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value) and not _REFERENCE.fullmatch(value):
        raise ConfigError(f"{name}: {path}: {value} stands for nothing; an environment variable is ${{env:NAME}}")

    def look_up(match: re.Match[str]) -> str:
        variable: str = match[1]
        default: str | None = match[2]
        replacement = environment.get(variable, default)
        if replacement is None:
            raise ConfigError(
                f"{name}: {path}: the environment variable {variable} is not set; "
                f"set it, or, unless it is a secret, write ${{env:{variable}:-default}}"
            )
        return replacement

    return _REFERENCE.sub(look_up, value)
