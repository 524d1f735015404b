"""Code in answers that parses or does not, by language; and texts that shall stop or crash no parser."""

import subprocess
import sys
import time

import pytest
from pydantic import ValidationError

from evaluators.results import Failure, Score, Skipped
from evaluators.turn.syntax import Syntax
from tests.unit.evaluators.test_checks import answer, outcome_of

CTE = (
    "WITH first AS (\nSELECT id FROM t1\nGROUP BY id\n)\nSELECT t.name FROM t4 t JOIN first f ON f.id = t.id LIMIT 50;"
)
CASES = [
    ("json", '{"a": 1}', 1.0),
    ("json", 'Here you are:\n```json\n{"a": [1, 2]}\n```\nAnything else?', 1.0),
    ("json", '{"a": 1,}', 0.0),
    ("json", "{'a': 1}", 0.0),
    ("json", '{"a": NaN}', 0.0),
    ("json", '```json\n{"a": 1', 0.0),  # cut off
    ("yaml", "a: &x 1\nb: [*x, 2]", 1.0),
    ("yaml", "a: *x", 0.0),
    ("yaml", "a: [1, 2", 0.0),
    ("yaml", "I cannot help with that.", 0.0),
    ("yaml", "```yml\n- a\n- b: c\n```", 1.0),
    ("xml", "<a b='c'><d/>&amp;</a>", 1.0),
    ("xml", "<a><b></a>", 0.0),
    ("xml", "<a/><b/>", 0.0),
    ("xml", "<!DOCTYPE html><html><br/></html>", 1.0),
    ("xml", '<?xml version="1.0" encoding="utf-16"?><a>é</a>', 1.0),
    ("python", "print(1)", 1.0),
    ("python", "print 1", 0.0),
    ("python", "x = '\\d'", 1.0),
    ("python", "x\0y", 0.0),
    ("python", "\ud800", 0.0),
    ("python", "Sure!\n```python\nx = 1\n```\nand then\n```python\ny = \n```", 0.0),
    ("python", "```bash\npip install x\n```\n```python\nimport x\n```", 1.0),
    ("python", "```bash\nls\n```", 0.0),
    ("python", "1. Do\n   ```python\n   if a:\n       b()\n   ```", 1.0),
    ("python", "~~~\nx = 1\n~~~", 1.0),
    ("python", "", 0.0),
    ("sql", "SELECT a, b FROM t WHERE c IN (1, 2) ORDER BY a;", 1.0),
    ("sql", "SELECT * FORM t", 0.0),
    ("sql", "SELECT * FROM t WHERE", 0.0),
    ("sql", "SELECT 'a", 0.0),
    ("sql", "I cannot help with that.", 0.0),
    ("sql", "Here is the query", 0.0),
    ("sql", "-- nothing", 0.0),
    ("sql", "CREATE TABLE t (a int); INSERT INTO t VALUES (1);", 1.0),
    # As users of other projects reported their models' answers:
    ("sql", "intermediate_sql\n```sql\nSELECT a FROM t\n```\n```sql\nSELECT b FROM t\n```", 1.0),
    ("sql", f"`{CTE}`", 1.0),
    ("sql", "Sure, I'd be happy to help! SQLQuery: SELECT name FROM t ORDER BY name DESC;\n\nThis returns all.", 0.0),
    ("sql", "SQLQuery:Here is the query and response for your question:", 0.0),
    ("sql", "```sql\nSELECT 1;```", 1.0),
    ("sql", "```sql SELECT 1```", 1.0),
    ("python", '```python\ndef f():\n    """Like\n    ```\n    f()\n    ```\n    """\n```', 1.0),
    ("python", 'Here is the code:\n```python title="a.py"\nx = 1\n```', 1.0),
    ("python", "```python\nimport json, re\nprint(1)", 1.0),
    ("python", "```PYTHON\nx = 1\n```", 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text", "value"), CASES)
async def test_code_parses_or_does_not(language, text, value):
    outcome = await outcome_of("syntax", answer(text or " "), language=language)
    assert isinstance(outcome, Score)
    assert outcome.value == value, outcome.explanation


async def test_the_place_of_what_is_wrong_is_told():
    text = "```python\nx = 1\n```\n```python\nx = 1\nif x\n```"
    assert (await outcome_of("syntax", answer(text), language="python")).explanation == (
        "block 2: line 2, column 5: expected ':'"
    )


async def test_code_in_a_part_of_an_answer_in_json():
    query = answer({"query": "SELECT SUM(a) FROM t WHERE DATE(b) = '2025-12-31'"})
    assert (await outcome_of("syntax", query, language="sql", target_output_key="query")).value == 1.0
    assert (await outcome_of("syntax", query, language="sql", target_output_key="sql")).value == 0.0


async def test_a_dialect_makes_the_difference():
    text = answer("SELECT TOP 3 [order] FROM t")
    assert (await outcome_of("syntax", text, language="sql", dialect="tsql")).value == 1.0
    assert (await outcome_of("syntax", text, language="sql", dialect="mysql")).value == 0.0


async def test_what_sqlglot_does_not_read_has_no_score_and_is_not_logged(caplog):
    assert isinstance(await outcome_of("syntax", answer("EXPLAIN SELECT secret"), language="sql"), Skipped)
    assert not caplog.records


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"language": "sql", "dialect": "postgress"}, "sqlglot does not know 'postgress'; it knows athena, "),
        ({"language": "xml", "dialect": "postgres"}, "only SQL has dialects"),
    ],
)
def test_a_wrong_dialect_is_refused(fields, sentence):
    with pytest.raises(ValidationError, match=sentence):
        Syntax(name="s", **fields)


@pytest.mark.parametrize("way", ["missing", "compiled"])
def test_sql_needs_a_parser_that_can_be_stopped(monkeypatch, way):
    from evaluators.turn import syntax

    syntax.sql_parser.cache_clear()
    if way == "missing":
        monkeypatch.setattr(syntax.util, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr("sqlglot.parser.__file__", "parser.cpython-311-x86_64-linux-gnu.so")
    remedy = {"missing": r"pip install '\.\[sql\]'", "compiled": "pip uninstall sqlglotc"}
    with pytest.raises(ValidationError, match=remedy[way]):
        Syntax(name="s", language="sql")


ENTITIES = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><a>&c;</a>'
HOSTILE = [
    ("xml", ENTITIES),
    ("xml", '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    ("sql", "SELECT INTERVAL JOIN a " + "INTERVAL JOIN a " * 20),  # tried again and again
    ("sql", "SELECT " + "(" * 5000),
    ("sql", "SELECT " + "NOT " * 4000 + "1"),
    ("sql", "SELECT 1" + ", 1" * 10_000),
    ("python", "- " * 40_000 + "1"),
    ("python", "x" + ".a" * 40_000),
    ("python", "x = " + "1 + " * 20_000 + "1"),
    ("python", "#" * 100_001),
    ("yaml", "[" * 30_000),
    ("yaml", "- " * 14_000),
]


@pytest.mark.parametrize(("language", "text"), HOSTILE)
async def test_hostile_code_fails_in_time_by_its_name(language, text):
    start = time.process_time()
    outcome = await outcome_of("syntax", answer(text), language=language)
    assert isinstance(outcome, Failure), outcome
    assert outcome.type == ("evaluation_error" if language == "xml" else "too_expensive")
    assert time.process_time() - start < 2.0


def test_no_python_ends_the_process_or_is_run():
    pieces = ["(", "[", "{", "- ", "not ", "a.", "a+", "lambda:", "f'{", "x=", "**", "await ", "a[", "@a\n", "if a:\n "]
    program = f"""
from evaluators.turn.syntax import Syntax, _python_problem
for piece in {pieces!r}:
    for times in (90, 190, 5000, 30000):
        try:
            _python_problem(piece * times + "1")
        except (RecursionError, MemoryError):
            pass
_python_problem("raise SystemExit(3)")
_python_problem("import os; os._exit(4)")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
