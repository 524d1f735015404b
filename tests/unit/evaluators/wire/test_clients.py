"""Every HTTP client of the product is the bounded one."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[4]
MAKERS = {
    "ClientSession", "urlopen", "build_opener", "HTTPConnection", "HTTPSConnection", "AsyncClient", "urlretrieve", "PoolManager",
}  # fmt: skip
LIBRARIES = {"requests", "httpx", "urllib3", "http.client", "aiohttp.request"}
ALLOWED = {"evaluators/wire/http_client.py"}
INSTRUMENTS = {"collector/demo"}
"""The demonstration's application, which is a stranger to the product and sends as its SDK does."""


def made_in(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            if name in MAKERS:
                found.append(f"{name} in line {node.lineno}")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in LIBRARIES]
        elif isinstance(node, ast.ImportFrom) and node.module in LIBRARIES:
            found.append(node.module)
    return found


def test_no_client_is_made_elsewhere():
    made = {
        relative: found
        for top in ("collector", "evaluators", "deploy")
        for path in (ROOT / top).rglob("*.py")
        if (relative := path.relative_to(ROOT).as_posix()) not in ALLOWED
        if not any(relative.startswith(folder) for folder in INSTRUMENTS)
        if (found := made_in(path))
    }
    assert made == {}


def test_the_check_finds_clients(tmp_path):
    file = tmp_path / "client.py"
    file.write_text("import httpx\nfrom urllib.request import urlopen\nurlopen('x')\naiohttp.ClientSession()\n")
    assert len(made_in(file)) == 3
