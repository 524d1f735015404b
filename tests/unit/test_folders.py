"""Every folder with code says in a README what lives there and what may be touched."""

from __future__ import annotations

import ast
import html
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
TOPS = ("collector", "evaluators", "deploy", "tests")
CODE = {".py", ".js", ".txt", ".yaml", ".tpl", ".xml", ".png"}
SPOKEN_FOR = ("tests/unit", "tests/golden", "tests/e2e", "deploy/helm", "deploy/grafana")
"""Folders whose README speaks for all inside: they mirror others, hold data, or are read by somebody else's tool."""


def folders() -> list[str]:
    """The folders with code, or those that speak for them."""
    found: set[str] = set()
    for top in TOPS:
        for path in (ROOT / top).rglob("*"):
            if path.suffix in CODE and "__pycache__" not in path.parts:
                folder = path.parent.relative_to(ROOT).as_posix()
                found.add(next((each for each in SPOKEN_FOR if folder.startswith(f"{each}/")), folder))
    return sorted(found)


@pytest.mark.parametrize("folder", folders())
def test_it_has_a_readme(folder: str) -> None:
    readme = ROOT / folder / "README.md"
    assert readme.exists(), f"{folder} has no README.md: say in 5 to 15 lines what lives there and what may be touched"
    lines = [line for line in readme.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) >= 4
    assert lines[0].startswith("# ")


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(page for top in TOPS for page in (ROOT / top).rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", html.unescape(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in pages()
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
        if not (there := page.parent / target if target else page).exists() or (anchor and anchor not in anchors(there))
    ]
    assert dead == []


@pytest.mark.parametrize(("top", "most"), [("collector", 8), ("evaluators", 21)])
def test_few_modules_are_loose(top: str, most: int) -> None:
    """What lies at the top is an entry point or a foundation; everything else has a package."""
    loose = {path.name for path in (ROOT / top).glob("*.py")} - {"__init__.py"}
    assert len(loose) <= most, f"{sorted(loose)}: move one into a package"


def test_no_modules_import_each_other() -> None:
    """Imports inside functions and imports for types alone count, too: each hides a circle rather than opens it."""
    graph = grimp.build_graph("collector", "evaluators", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # a circle raises CycleError, which names its modules


def test_what_tests_share_has_names_of_its_own() -> None:
    """Folders of tests are all on the path: of two modules of one name, the order of collection chose one."""
    shared = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith(("test_", "conftest", "__"))]
    names = Counter(path.name for path in shared if "mutants" not in path.parts)
    assert [name for name, count in names.items() if count > 1] == []


def classes() -> list[tuple[str, ast.ClassDef]]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for top in TOPS[:2] for path in (ROOT / top).rglob("*.py")]
    return [(node.name, node) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def test_classes_have_one_job() -> None:
    """At most 350 lines, 30 methods and a constructor of 8 parameters: what belongs together is one frozen object."""
    too_large: set[str] = set()
    for name, node in classes():
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        made = [method.args for method in methods if method.name == "__init__"]
        parameters = max((len(args.posonlyargs + args.args + args.kwonlyargs) - 1 for args in made), default=0)
        if node.end_lineno - node.lineno >= 350 or len(methods) > 30 or parameters > 8:
            too_large.add(name)
    assert not too_large, f"{sorted(too_large)}: split by job, or group parameters"
