"""Random mutations of the code that decides what is judged and what it counts for: which of them the tests notice.

    python tests/mutants/mutants.py                        150 mutants, drawn with a new seed
    python tests/mutants/mutants.py --count 30 --seed 7    the same 30 as any other run with seed 7
    python tests/mutants/mutants.py --only ledger          one target

A mutant is one small change of the syntax tree: a comparison, an operator, a constant, a condition, a missing statement.
Each runs in a process of its own against the tests named in `TARGETS`. A mutant that no test notices is a survivor;
`EQUIVALENT.md` names the survivors that change nothing that anybody could observe, and they do not count. The exit
status is 1 when fewer than `--aim` of the others are noticed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PINS = "tests/golden/test_persisted_records.py"
MACHINE = "tests/property/test_conversation_machine.py"
TARGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sampling": (
        ("collector/evaluate/sampling", "collector/evaluate/partition_state.py", "collector/evaluate/job_builder.py"),
        (
            "tests/unit/evaluate/sampling",
            "tests/unit/evaluate/test_partition_state.py",
            "tests/unit/evaluate/budget",
            "tests/unit/evaluate/test_stage.py",
            PINS,
            MACHINE,
        ),
    ),
    "ledger": (
        ("collector/evaluate/recovery", "collector/evaluate/scheduling/jobs.py"),
        (
            "tests/unit/evaluate/recovery",
            "tests/unit/evaluate/scheduling",
            "tests/unit/evaluate/test_stage.py",
            "tests/unit/evaluate/test_restart_work.py",
            "tests/unit/evaluate/test_partition_state.py",
            PINS,
            MACHINE,
        ),
    ),
    "weighting": (
        ("evaluators/answers/expected_score.py", "collector/statistics/bounded_sums.py"),
        (
            "tests/unit/evaluators/test_expected_score.py",
            "tests/unit/statistics/test_estimator.py",
            "tests/unit/statistics/test_bounded_sums.py",
        ),
    ),
    "turns": (
        ("collector/assemble/turns.py", "collector/assemble/turn_drafts.py", "collector/assemble/open_traces.py"),
        (
            "tests/unit/assemble",
            "tests/unit/dialects",
            "tests/golden/test_otlp.py",
            PINS,
            "tests/property/test_deliveries.py",
        ),
    ),
    "budget": (
        ("collector/evaluate/budget",),
        ("tests/unit/evaluate/budget", "tests/unit/evaluate/test_stage.py", PINS),
    ),
    "drops": (
        ("collector/statistics/incident.py", "collector/alerting/rules/drops.py"),
        (
            "tests/unit/statistics/test_drop_detector.py",
            "tests/unit/statistics/test_incident.py",
            "tests/unit/alerting/rules/test_drops.py",
        ),
    ),
}
"""By name: the files or folders that are mutated, and the tests that should notice, one after the other until one
does: the quickest first, behind those named after the module. Paths that do not exist are an error."""
LIMIT = 120
"""Seconds of processor time for the tests of one mutant; a mutant that takes longer never ends, and is noticed by that."""
# The seconds of one test are by the clock: on a busy machine a sound test may take minutes, and one that hangs costs
# nothing but them.
OPTIONS = (
    *("-q", "-x", "-m", "not long and not slow", "--timeout=300", "--hypothesis-profile=first-failure"),
    *("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
LOADED = (
    "aiohttp",
    "google.protobuf",
    "hypothesis.stateful",
    "orjson",
    "prometheus_client",
    "pydantic",
    "rich",
    "yaml",
)
"""What most tests import and nothing mutates: imported once, before the processes of the mutants are forked."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file: `source` is the whole file with it, `change` its line before and after."""

    path: Path
    line: int
    change: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def main() -> int:
    """Draw mutants, try each, and print the survivors."""
    options = _arguments()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    os.environ["CI"] = "true"  # the same examples for every mutant
    drawn = draw(random.Random(seed), options.count, options.only or list(TARGETS))
    print(f"{len(drawn)} mutants, seed {seed}", flush=True)
    equivalent = (Path(__file__).parent / "EQUIVALENT.md").read_text(encoding="utf-8")
    counted = [(target, mutant) for target, mutant in drawn if _key(mutant) not in equivalent]
    survivors = Counter(try_all(counted, options.workers))
    for target, number in sorted(Counter(target for target, _ in counted).items()):
        print(f"{target}: {number - survivors[target]} of {number}")
    noticed = 1 - survivors.total() / len(counted) if counted else 1.0
    print(
        f"{noticed:.1%} of {len(counted)} noticed, {len(drawn) - len(counted)} equivalent; the aim is {options.aim:.0%}"
    )
    return 0 if noticed >= options.aim else 1


def draw(chance: random.Random, count: int, targets: list[str]) -> list[tuple[str, Mutant]]:
    """Draw `count` mutants, evenly over the targets; within a target every possible change is equally likely."""
    drawn: list[tuple[str, Mutant]] = []
    for index, target in enumerate(targets):
        share = count // len(targets) + (index < count % len(targets))
        places = [(path, *place) for path in _files(target) for place in _places(_tree(path))]
        drawn += [(target, _mutant(*place)) for place in chance.sample(places, min(share, len(places)))]
    chance.shuffle(drawn)
    return drawn


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _places(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Every possible change of a file: the node's number, and which of its changes.

    Docstrings, annotations, decorators, logging and raised messages are left alone.
    """
    silent = {id(each) for node in ast.walk(tree) for part in _silent_parts(node) for each in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in silent:
            yield from ((number, change) for change, _ in enumerate(_mutations(node)))


def _mutant(path: Path, number: int, change: int) -> Mutant:
    """The file with one change."""
    tree = _tree(path)
    around = {id(part): node for node in ast.walk(tree) for part in ast.iter_child_nodes(node)}
    node = list(ast.walk(tree))[number]
    shown = around[id(node)] if isinstance(node, ast.Constant) else node  # a number alone would not tell which
    before = _shown(shown)
    list(_mutations(node))[change](node)
    after = ast.unparse(ast.fix_missing_locations(tree))
    return Mutant(path, getattr(node, "lineno", 0), f"{before} -> {_shown(shown)}", after)


def _mutations(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    match node:
        case ast.Compare(ops=[operator, *_]):
            yield lambda twin: twin.ops.__setitem__(0, _COMPARISONS[type(operator)]())
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            yield lambda twin: setattr(twin, "op", _OPERATORS[type(operator)]())
        case ast.BoolOp(op=operator):
            yield lambda twin: setattr(twin, "op", ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield lambda twin: _become(twin, twin.operand)
        case ast.UnaryOp(op=ast.USub()):
            yield lambda twin: setattr(twin, "op", ast.UAdd())
        case ast.Constant(value=bool(value)):
            yield lambda twin: setattr(twin, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield lambda twin: setattr(twin, "value", value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield lambda twin: setattr(twin.func, "id", _CALLS[name])
        case ast.If() | ast.While():
            yield lambda twin: setattr(twin, "test", ast.UnaryOp(ast.Not(), twin.test))
        case ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Await()) if not _is_talk(node):
            yield lambda twin: _become(twin, ast.Pass())
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield lambda twin: setattr(twin, "value", ast.Constant(None))


def _silent_parts(node: ast.AST) -> list[ast.expr]:
    """The parts of a node that say nothing about what is computed: types, decorators, and `strict` of a `zip`."""
    match node:
        case (
            ast.FunctionDef(decorator_list=decorators, returns=returns)
            | ast.AsyncFunctionDef(decorator_list=decorators, returns=returns)
        ):
            return [*decorators, *([returns] if returns else [])]
        case ast.ClassDef(decorator_list=decorators):
            return decorators
        case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
            return [annotation]
        case ast.keyword(arg="strict", value=value):
            return [value]
    return []


def _is_talk(node: ast.AST) -> bool:
    return ast.unparse(node).startswith(("logger.", "super().__init__"))


def _become(twin: ast.AST, other: ast.AST) -> None:
    """Turn a node into another one, in its place."""
    twin.__class__ = type(other)  # type: ignore[assignment]
    twin.__dict__.clear()
    twin.__dict__.update(other.__dict__)


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _key(mutant: Mutant) -> str:
    """How EQUIVALENT.md names a mutant: by file and change, as line numbers move."""
    return f"`{mutant.path}`: `{mutant.change}`"


def try_all(drawn: list[tuple[str, Mutant]], workers: int) -> Iterator[str]:
    """Try mutants, `workers` at a time; gives the target of each that no test noticed, and prints each at once."""
    for name in LOADED:
        importlib.import_module(name)
    unchanged = [(target, None) for target in sorted({target for target, _ in drawn})]
    if failing := [target for target, _, passed in _ends(unchanged, workers) if not passed]:
        raise SystemExit(f"{', '.join(failing)}: the tests fail without any mutation")
    for target, mutant, survived in _ends(drawn, workers):
        print(f"{'SURVIVED' if survived else 'noticed '}  {mutant}", flush=True)
        if survived:
            yield target


def _ends(drawn: Sequence[tuple[str, Mutant | None]], workers: int) -> Iterator[tuple[str, Mutant | None, bool]]:
    """Run the tests with each mutant, `workers` at a time; gives them as they end, and whether all tests passed."""
    waiting, running = list(drawn[::-1]), dict[int, tuple[str, Mutant | None]]()
    while waiting or running:
        while waiting and len(running) < workers:
            target, mutant = waiting.pop()
            running[_start(target, mutant)] = target, mutant
        process, status = os.wait()
        yield *running.pop(process), os.waitstatus_to_exitcode(status) == 0


def _start(target: str, mutant: Mutant | None) -> int:
    """Start the tests of a target in a process of their own, which imports the mutant in place of its file."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            if mutant is not None:
                sys.meta_path.insert(0, MutantImporter(mutant))
            ends = (pytest.main([*OPTIONS, *tests]) for tests in _tests(target, mutant))
            ran_before = pytest.ExitCode.NO_TESTS_COLLECTED if mutant is not None else None
            status = next((end for end in ends if end not in {pytest.ExitCode.OK, ran_before}), 0)
        finally:
            os._exit(status)
    return process


def _tests(target: str, mutant: Mutant | None) -> Iterator[list[str]]:
    """The tests of a target as arguments of pytest's runs: first those that are named after the mutant's module."""
    folders = TARGETS[target][1]
    own: list[str] = []
    if mutant is not None:
        found = (path for each in map(ROOT.joinpath, folders) for path in (each, *each.rglob("*.py")))
        own = [str(path) for path in found if path.name == f"test_{mutant.path.stem}.py"]
    if own:
        yield own
    yield from ([*map("--ignore={}".format, own), each] for each in folders if str(ROOT / each) not in own)


class MutantImporter(Loader, MetaPathFinder):
    """Imports a mutant under the name of its module; nothing is written to the working tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = ".".join(mutant.path.with_suffix("").parts)

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The module's own specification, with this as its loader; None for every other."""
        if fullname != self._name:
            return None
        return spec_from_file_location(fullname, ROOT / self._mutant.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutant."""
        exec(compile(self._mutant.source, str(self._mutant.path), "exec"), module.__dict__)


def _files(target: str) -> Iterator[Path]:
    for name in (*TARGETS[target][0], *TARGETS[target][1]):
        if not (ROOT / name).exists():
            raise SystemExit(f"{target}: {name} does not exist; correct TARGETS")
    for name in TARGETS[target][0]:
        path = ROOT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (each.relative_to(ROOT) for each in files)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=150, help="how many mutants")
    parser.add_argument("--seed", type=int, help="the same seed draws the same mutants of the same code")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="a target; may be given several times")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many are tried side by side")
    parser.add_argument("--aim", type=float, default=0.9, help="the share to be noticed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
