"""Syntax of code in the answer: JSON, YAML, XML, Python or SQL that parses. Nothing is run, fetched or expanded."""

import ast
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import util
from typing import Any, ClassVar, Literal, Self
from xml.parsers import expat

import orjson
import yaml
from pydantic import model_validator

from evaluators.asking.judge_input import ProgramField, SearchesText, read_text
from evaluators.cases import Turn
from evaluators.errors import EvaluationError, NotApplicable, TooExpensive
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score, SkipReason
from evaluators.texts.paths import Path, find, parse_json_or_text, without_fence

_TAGS = {"json": "json", "yaml": "yaml yml", "xml": "xml svg rss xsd xslt", "python": "python py python3"}
_LONGEST = {"json": 1_000_000, "yaml": 30_000, "xml": 1_000_000, "python": 100_000, "sql": 20_000}
"""Characters that are parsed in about an eighth of a second at most."""
_MOST_STEPS = 40_000
"""Steps over tokens after which SQL is given up: usual queries take about one a token, some texts 2 to their length."""
_DEEPEST = 200
"""Levels of YAML: its scanner's time grows with their square."""
_LONGEST_MESSAGE = 200
_FENCE = re.compile(r"([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+\Z")
_CLASS = re.compile(r"<[^<>]*+>")


class Syntax(SearchesText, CodeEvaluator[Turn]):
    """1 if the code in the answer parses in its language, else 0.

    In an answer with code blocks, the blocks of the language are parsed. If there are none, the blocks without a
    language are. An answer without blocks is parsed whole. Nothing is run, and names of tables or variables are not
    looked up. XML has to be a whole document. Prose is no YAML: only mappings and lists are. Python is that of the
    running version. SQL needs the extra `sql`: sqlglot, which tolerates differences between dialects. A turn with a
    statement that sqlglot cannot read is skipped. Code longer than 1,000,000 characters (Python 100,000, YAML 30,000,
    SQL 20,000), or code that is nested too deeply, ends as the failure `too_expensive`.
    """

    kind: ClassVar[str] = "syntax"
    example: ClassVar[Example] = {"language": "python"}

    language: Literal["json", "yaml", "xml", "python", "sql"]
    """The language of the code."""
    dialect: str | None = None
    """The dialect of SQL, like postgres or bigquery; what most have in common if left out."""
    searched: Literal["actual_output"] | ProgramField = "actual_output"
    """The answer, or a named input or output of a structured program, like outputs.query."""
    target_output_key: Path = "*"
    """The part of an answer in JSON that holds the code: a path such as sql or queries[0], or * for all."""

    @model_validator(mode="after")
    def _is_readable(self) -> Self:
        if self.language == "sql":
            sql_parser(self.dialect)
        elif self.dialect is not None:
            raise ValueError("dialect: only SQL has dialects; leave it out")
        return self

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        text = read_text(case, self.searched)
        part = text if self.target_output_key == "*" else find(parse_json_or_text(text), self.target_output_key)
        if not isinstance(part, str):
            return Score(value=0.0, explanation=f"no text at {self.target_output_key}")
        codes = code_in(part, self._is_tag)
        if sum(map(len, codes)) > _LONGEST[self.language]:
            raise TooExpensive(f"syntax: more than {_LONGEST[self.language]:,} characters of {self.language}")
        problems = [self._problem(code) for code in codes] or [f"no block of {self.language}"]
        for number, problem in enumerate(problems, start=1):
            if problem:
                where = f"block {number}: " if len(problems) > 1 else ""
                return Score(value=0.0, explanation=where + problem[:_LONGEST_MESSAGE])
        return Score(value=1.0, explanation="parses" if len(codes) == 1 else f"all {len(codes)} blocks parse")

    def _is_tag(self, tag: str) -> bool:
        return "sql" in tag or tag == self.dialect if self.language == "sql" else tag in _TAGS[self.language].split()

    def _problem(self, code: str) -> str | None:
        """The first fault of the code with its place; None without any."""
        if not code.strip():
            return "it is empty"
        try:
            return _sql_problem(code, self.dialect) if self.language == "sql" else _PROBLEMS[self.language](code)
        except (RecursionError, MemoryError):
            raise TooExpensive(f"syntax: the {self.language} is nested too deeply") from None


def code_in(text: str, is_tag: Callable[[str], bool]) -> Sequence[str]:
    """The code blocks with such a language, else those without any; all of a text that has no blocks.

    A block that the answer does not close ends with it.
    """
    blocks: list[tuple[str, list[str]]] = []
    opened: re.Match[str] | None = None
    for line in text.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened = fence
                blocks.append((fence[3].lower(), []))
            continue
        before, mark, rest = line.rpartition(opened[2])
        if not mark or rest.strip() or len(before) - len(before.lstrip()) > len(opened[1]) + 3:
            blocks[-1][1].append(line)
            continue
        blocks[-1][1].append(before.rstrip("`~"))  # some models close a block at the end of its last line
        opened = None
    if not blocks:
        whole = without_fence(text)
        return [whole[1:-1] if whole[:1] == whole[-1:] == "`" and whole.count("`") == 2 else whole]
    chosen = [code for tag, code in blocks if is_tag(tag)] or [code for tag, code in blocks if not tag]
    return [textwrap.dedent("\n".join(code)) for code in chosen]


def _at(line: int | None, column: int | None, message: str) -> str:
    return f"line {line or 1}, column {column or 1}: {message}"


def _json_problem(code: str) -> str | None:
    try:
        orjson.loads(code)
    except orjson.JSONDecodeError as error:
        return _at(error.lineno, error.colno, error.msg)
    return None


def _yaml_problem(code: str) -> str | None:
    anchors: set[str | None] = set()
    depth, structured = 0, False
    try:
        for event in yaml.parse(code, Loader=yaml.SafeLoader):  # events: nothing is made of the text, nothing nested
            structured |= isinstance(event, yaml.CollectionStartEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise RecursionError
            if isinstance(event, yaml.AliasEvent) and event.anchor not in anchors:
                return "an alias of something that is not there"
            anchors.add(getattr(event, "anchor", None))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return _at(mark and mark.line + 1, mark and mark.column + 1, error.problem or "no YAML")
    except yaml.YAMLError:
        return "a character that YAML does not have"
    return None if structured else "neither a mapping nor a list"


def _xml_problem(code: str) -> str | None:
    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = _refuse_declarations
    try:
        parser.Parse(code.strip().encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        return _at(error.lineno, error.offset + 1, expat.ErrorString(error.code))
    return None


def _refuse_declarations(_name: str, _system: str | None, _public: str | None, has_subset: int) -> None:
    if has_subset:
        raise EvaluationError("syntax: the XML declares entities or elements, which are not expanded")


def _python_problem(code: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(textwrap.dedent(code))
    except SyntaxError as error:
        return _at(error.lineno, error.offset, error.msg)
    except ValueError:
        return "a character that Python does not have"
    return None


_PROBLEMS = {"json": _json_problem, "yaml": _yaml_problem, "xml": _xml_problem, "python": _python_problem}


def _sql_problem(code: str, dialect: str | None) -> str | None:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    known, parser = sql_parser(dialect)
    try:
        trees = [tree for tree in parser(dialect=known).parse(known.tokenize(code), code) if tree is not None]
    except (SqlglotError, LookupError, ValueError, TypeError, AttributeError) as error:  # the latter: it stumbles
        errors: Sequence[Any] = getattr(error, "errors", ())
        first: dict[str, Any] = errors[0] if errors else {}
        message = _CLASS.sub("…", str(first.get("description") or "a token that is unexpected or has no end"))
        return _at(first.get("line"), first.get("col"), message)
    if not trees or any(isinstance(tree, exp.Condition | exp.Alias | exp.Tuple) for tree in trees):
        return "no statement"
    if any(isinstance(tree, exp.Command) for tree in trees):
        raise NotApplicable(SkipReason.INVALID_FIELD.text("a statement that sqlglot does not read"))
    return None


@cache
def sql_parser(dialect: str | None) -> tuple[Any, Any]:
    """A dialect, and its parser with an end: sqlglot tries some texts again and again.

    Raises:
        ValueError: sqlglot is not there, cannot be stopped, or does not know the dialect.
    """
    if util.find_spec("sqlglot") is None:
        raise ValueError("language: sql needs sqlglot: pip install '.[sql]'")
    from sqlglot import Dialect, parser

    if not parser.__file__.endswith(".py"):
        raise ValueError("language: sql needs sqlglot in Python, as no text may end it: pip uninstall sqlglotc")
    known: Any = Dialect.get(dialect or "")
    if known is None:
        names = ", ".join(sorted(filter(None, Dialect.classes)))
        raise ValueError(f"dialect: sqlglot does not know {dialect!r}; it knows {names}")
    base: Any = known.parser_class

    class BoundedParser(base):
        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise TooExpensive("syntax: the SQL is too ambiguous to be parsed in time")
            base._advance(self, times)  # noqa: SLF001 - every way through the tokens goes through it

        def _warn_unsupported(self) -> None:
            """Log nothing: the message would hold the statement."""

    return known(), BoundedParser
