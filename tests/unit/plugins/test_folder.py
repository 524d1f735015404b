"""Plug-ins in a folder that a configuration names: found, named, kept apart from everybody else's modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector import plugins
from collector.config.loading import check
from collector.config.section_hashes import section_hashes
from collector.dialects.registry import Dialects
from collector.errors import ConfigError
from collector.plugins.folder import PluginFolder

EVALUATOR = '''
from typing import ClassVar
from evaluators import Evaluator, Judge, Score, Turn
from ._lengths import LIMIT

class HouseTestMetric(Evaluator[Turn]):
    """1 while the answer is short."""

    kind: ClassVar[str] = "house_test_metric"
    needs_judge: ClassVar[bool] = False
    limit: int = LIMIT

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        return Score(value=float(len(case.actual_output or "") <= self.limit))
'''
DIALECT = """
from collector.dialects.dialect import Coverage, Dialect

ACME = Dialect(name="acme", rank=500, read=lambda span, records: None, evidence=("acme.*",), coverage=Coverage(libraries="x"))
"""
EXPORTER = """
from collector.export.exporter import ExporterSettings

class Settings(ExporterSettings):
    url: str

class Webhook:
    Settings = Settings

    @classmethod
    def open(cls, settings, context): ...

    async def export(self, batch): ...
"""
REDACTOR = """
import re
from collector.redact.finding import Finding

def employees():
    return lambda text: [Finding(each.start(), each.end(), "EMPLOYEE") for each in re.finditer("EMP[0-9]+", text)]
"""
JUDGE = """
class Mine:
    def __init__(self, model): self.model = model
    async def ask(self, prompt, reply, *, logprobs=False, samples=1): raise NotImplementedError
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of every kind of plug-in, with files that are called like packages of ours; forgotten at the end."""
    path = tmp_path / "mine"
    path.mkdir()
    files = {
        "house_test_metric.py": EVALUATOR, "_lengths.py": "LIMIT = 5", "evaluators.py": "NOTHING = 1", "collector.py": DIALECT,
        "pager.py": EXPORTER, "people.py": REDACTOR, "judge.py": JUDGE,
    }  # fmt: skip
    for name, text in files.items():
        (path / name).write_text(text)
    yield path
    forget()


def forget() -> None:
    """As in a new process."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PluginFolder)]
    for name in [each for each in sys.modules if each.startswith("evalstream_plugins_")]:
        del sys.modules[name]


def configuration(**changes: Any) -> dict[str, Any]:
    return {
        "plugins": "mine",
        "evaluators": {"brief": {"kind": "house_test_metric"}},
        "monitors": {"all": {"evaluators": ["brief"]}},
        **changes,
    }


def mistake(source: str, **changes: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        check(configuration(**changes), source)
    return str(raised.value)


def test_every_kind_of_plugin_is_found_by_its_name(folder: Path) -> None:
    import evaluators

    source = str(folder.parent / "my.yaml")
    changes = {
        "judges": {"main": {"kind": "judge:Mine", "model": "m"}},
        "redact": {"detectors": ["patterns", "people:employees"]},
        "export": {"pager": {"url": "http://x"}, "prometheus": {}},
        "evaluators": {
            "brief": {"kind": "house_test_metric"},
            "named": {"kind": "house_test_metric:HouseTestMetric", "limit": 7},
        },
    }
    config = check(configuration(**changes), source)
    assert config.evaluators["brief"].evaluator.model_dump() == {"name": "brief", "threshold": None, "limit": 5}
    assert config.evaluators["named"].evaluator.kind == "house_test_metric"
    assert config.exporters["pager"].model_dump() == {"url": "http://x"}
    assert "acme" in {each.name for each in Dialects.installed().all}
    assert next(iter(plugins.detector("people:employees")("ask EMP12"))).kind == "EMPLOYEE"
    assert sys.modules["evaluators"] is evaluators, "a file of this name is not taken for ours"
    assert check(configuration(), source).evaluators["brief"], "opened once, used again"
    assert "unknown key; did you mean 'url'?" in mistake(source, **changes | {"export": {"pager": {"ulr": "x"}}})


def test_the_folder_is_beside_the_file_wherever_the_command_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    check(configuration(), str(folder.parent / "my.yaml"))
    check(configuration(plugins=str(folder)), "my.yaml")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("broken.py", "x = 1\nraise ValueError('no')", "mine/broken.py: cannot be loaded, line 2 (ValueError: no)"),
        ("broken.py", "def x(:", "mine/broken.py: cannot be loaded (SyntaxError: invalid syntax"),
        (
            "again.py",
            EVALUATOR,
            "the evaluator kind 'house_test_metric' is HouseTestMetric here and HouseTestMetric in mine/again.py",
        ),
        (
            "mine.py",
            EVALUATOR.replace('"house_test_metric"', '"g_eval"'),
            "mine/mine.py: the evaluator kind 'g_eval' exists already, in evaluators.turn.g_eval; choose another name",
        ),
        (
            "otlp.py",
            EXPORTER,
            "mine/otlp.py: the exporter 'otlp' exists already, in collector.export.otlp; choose another name",
        ),
        (
            "mine.py",
            EVALUATOR.replace('"house_test_metric"', '"abstract"').replace("async def evaluate", "async def evalute"),
            "mine/mine.py, line 6: HouseTestMetric has no method evaluate; write async def evaluate(self, case, judge)",
        ),
        (
            "mine.py",
            EVALUATOR.replace('"house_test_metric"', '"plain"').replace("async def", "def"),
            "mine/mine.py, line 17: HouseTestMetric.evaluate is not asynchronous; write async def evaluate(self, case, judge)",
        ),
        (
            "mine.py",
            EVALUATOR.replace('"house_test_metric"', '"narrow"').replace("case: Turn, judge: Judge", "case: Turn"),
            "mine/mine.py, line 17: HouseTestMetric.evaluate cannot be called as it will be (too many positional arguments)",
        ),
        (
            "mine.py",
            EVALUATOR.replace("    kind: ClassVar[str]", "    sort: ClassVar[str]"),
            'mine/mine.py, line 6: HouseTestMetric has no kind; write kind: ClassVar[str] = "housetestmetric"',
        ),
        (
            "mine.py",
            EVALUATOR.replace('"house_test_metric"', '"needy"').replace("def requires", "def requirs"),
            "mine/mine.py, line 6: HouseTestMetric does not say which fields it needs; write needed_fields",
        ),
        (
            "mine.py",
            EXPORTER.replace("    Settings = Settings\n", ""),
            "mine/mine.py, line 7: an exporter is a class with Settings, open, export; write Settings",
        ),
        ("mine.py", EXPORTER.replace("async def export", "def export"), "Webhook.export is not asynchronous"),
        (
            "mine.py",
            EXPORTER.replace("def open", "async def open"),
            "line 7: open is no context manager; write @classmethod",
        ),
        ("mine.py", DIALECT.replace('("acme.*",)', '"acme.*"'), "line 4: evidence of the dialect 'acme' is one text"),
        (
            "mine.py",
            DIALECT.replace("span, records:", "span:"),
            "line 4: the dialect acme.read cannot be called as it will be",
        ),
        ("my-own.py", "", "mine/my-own.py: no module has such a name; use letters, digits and _"),
    ],
    ids=[
        "raises",
        "syntax",
        "twice",
        "ours",
        "our exporter",
        "abstract",
        "not async",
        "signature",
        "no kind",
        "no fields",
        "no settings",
        "export not async",
        "open is no context",
        "evidence is a text",
        "read",
        "name",
    ],
)
def test_what_is_wrong_in_a_folder(folder: Path, name: str, text: str, complaint: str) -> None:
    (folder / name).write_text(text)
    source = str(folder.parent / "my.yaml")
    assert mistake(source).startswith(f"{source}: plugins: mine/")
    assert complaint in mistake(source), "also the second time"
    (folder / name).unlink()
    check(configuration(), source)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    source = str(tmp_path / "my.yaml")
    assert mistake(source).endswith("mine: no such folder; name the one that your plug-ins are in")


def test_a_module_that_has_the_name_of_our_package_says_where_to_put_it(folder: Path) -> None:
    line = mistake(str(folder.parent / "my.yaml"), plugins=None, evaluators={"x": {"kind": "evaluators.mine:Mine"}})
    assert "evaluators is a package of evalstream's own; name the folder of yours as `plugins`" in line


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (
            'frozenset({"actual_output"})',
            'frozenset({"actual_ouput"})',
            "HouseTestMetric.requires names 'actual_ouput', which no turn has; did you mean 'actual_output'?",
        ),
        (
            '    @property\n    def requires(self) -> frozenset[str]:\n        return frozenset({"actual_output"})',
            '    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_ouput"})',
            "HouseTestMetric.needed_fields names 'actual_ouput', which no turn has; did you mean 'actual_output'?",
        ),
        (
            'frozenset({"actual_output"})',
            '"actual_output"',
            "HouseTestMetric.requires is no set of names; write needed_fields",
        ),
        (
            'return frozenset({"actual_output"})',
            "return 1 / 0",
            "HouseTestMetric.requires cannot be read (ZeroDivisionError",
        ),
        (
            "    async def evaluate",
            "    def model_post_init(self, context):\n        1 / 0\n\n    async def evaluate",
            "house_test_metric cannot be made (ZeroDivisionError: division by zero)",
        ),
    ],
    ids=["unknown field", "unknown field of a variable", "a text", "raises", "constructor"],
)
def test_what_a_definition_of_a_plug_in_says_wrong_of_itself(
    folder: Path, before: str, after: str, complaint: str
) -> None:
    (folder / "house_test_metric.py").write_text(EVALUATOR.replace(before, after))
    source = str(folder.parent / "my.yaml")
    assert mistake(source).startswith(f"{source}: evaluators.brief: mine/house_test_metric.py, line 6: {complaint}")


@pytest.mark.parametrize(
    ("changes", "file", "text", "complaint"),
    [
        (
            {"judges": {"main": {"kind": "judge:Mine", "model": "m"}}},
            "judge.py",
            JUDGE.replace("async def", "def"),
            "judges.main.kind: mine/judge.py, line 4: Mine.ask is not asynchronous; write async def ask(self, prompt",
        ),
        (
            {"judges": {"main": {"kind": "judge:Mine", "model": "m"}}},
            "judge.py",
            JUDGE.replace(", *, logprobs=False, samples=1", ""),
            "judges.main.kind: mine/judge.py, line 4: Mine.ask cannot be called as it will be (",
        ),
        (
            {"redact": {"detectors": ["people:employes"]}},
            "people.py",
            REDACTOR,
            "redact.detectors: 'people:employes' cannot be imported (",
        ),
    ],
    ids=["judge not async", "judge without arguments", "no detector"],
)
def test_a_judge_or_a_detector_that_cannot_be_used(
    folder: Path, changes: dict[str, Any], file: str, text: str, complaint: str
) -> None:
    (folder / file).write_text(text)
    assert complaint in mistake(str(folder.parent / "my.yaml"), **changes)


def test_a_detector_of_a_factory_that_makes_none(folder: Path) -> None:
    (folder / "people.py").write_text("def employees(): return None\ndef raising(): return 1 / 0")
    check(configuration(), str(folder.parent / "my.yaml"))
    with pytest.raises(
        ConfigError, match=r"people.py, line 1: people:employees must return a function of a text \(it returned none\)"
    ):
        plugins.detector("people:employees")
    with pytest.raises(
        ConfigError, match=r"people.py, line 2: people:raising must return a function of a text \(ZeroDivisionError"
    ):
        plugins.detector("people:raising")


def test_a_base_class_in_a_folder_is_no_plug_in(folder: Path) -> None:
    base = EVALUATOR.replace("async def evaluate", "async def partly") + (
        "\nclass Whole(HouseTestMetric):\n    '''x'''\n    evaluate = HouseTestMetric.partly\n"
    )
    (folder / "house_test_metric.py").write_text(base)
    assert check(configuration(), str(folder.parent / "my.yaml")).evaluators["brief"]


ASKING = EVALUATOR.replace("needs_judge: ClassVar[bool] = False", 'prompts: ClassVar = ("Say whether it is short.",)')


def test_a_prompt_of_a_plug_in_is_a_text_and_part_of_the_version(folder: Path) -> None:
    versions: list[str] = []
    for text in (ASKING, ASKING.replace("short.", "very short.")):
        (folder / "house_test_metric.py").write_text(text)
        evaluators = {"brief": {"kind": "house_test_metric", "judge": "main"}}
        config = check(
            configuration(evaluators=evaluators, judges={"main": {"kind": "judge:Mine", "model": "m"}}),
            str(folder.parent / "my.yaml"),
        )
        versions.append(config.evaluators["brief"].evaluator.version)
        forget()
    assert versions[0] != versions[1]


def test_a_plug_in_that_asks_no_judge_is_told_how_to_say_so(folder: Path) -> None:
    (folder / "house_test_metric.py").write_text(EVALUATOR.replace("    needs_judge: ClassVar[bool] = False\n", ""))
    source = str(folder.parent / "my.yaml")
    remedy = "name one of `judges` (none is defined), or, if it asks none, write needs_judge = False in its class"
    assert mistake(source) == f"{source}: evaluators.brief.judge: is missing; {remedy}"
    built_in = mistake(source, evaluators={"brief": {"kind": "completeness"}})
    assert built_in.endswith("evaluators.brief.judge: is missing; name one of `judges` (none is defined)")


def test_a_prompt_file_of_a_plug_in_is_one_sentence(folder: Path) -> None:
    (folder / "house_test_metric.py").write_text(ASKING.replace("Say whether it is short.", "short.txt"))
    line = mistake(
        str(folder.parent / "my.yaml"),
        evaluators={"brief": {"kind": "house_test_metric", "judge": "main"}},
        judges={"main": {"kind": "judge:Mine", "model": "m"}},
    )
    assert line.endswith(
        "HouseTestMetric.version names the prompt 'short.txt', which evalstream has not; write the prompt's text"
    )


def test_a_file_without_a_plug_in_is_named_and_one_that_the_configuration_names_is_not(folder: Path) -> None:
    """A class whose base was forgotten was passed over without a word."""
    (folder / "lonely.py").write_text("class Lonely:\n    pass\n")
    config = check(configuration(judges={"main": {"kind": "judge:Mine", "model": "m"}}), str(folder.parent / "my.yaml"))
    assert "plugins: lonely.py has no plug-in; begin a helper file's name with _" in config.warnings
    assert not any("judge.py" in each for each in config.warnings)
    assert "plugins: people.py has no plug-in; begin a helper file's name with _" in config.warnings


def test_a_changed_plug_in_is_another_section(folder: Path) -> None:
    """`check --diff` said that a changed file changes nothing, and the next start judged by another version."""
    source = str(folder.parent / "my.yaml")
    before = section_hashes(check(configuration(), source))
    assert section_hashes(check(configuration(), source)) == before
    (folder / "_lengths.py").write_text("LIMIT = 6")
    assert section_hashes(check(configuration(), source)) == before, "of what runs"
    forget()
    after = section_hashes(check(configuration(), source))
    assert {name for name in after if after[name] != before[name]} == {"plugins"}
