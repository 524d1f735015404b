"""The command `evalstream`, as it is installed: it runs our own packages, whatever else has their names.

The wheel has this file as the module `evalstream_launcher`, beside `collector` and `evaluators`. Somebody's folder of
such a name, on PYTHONPATH, would else be imported in their place.
"""

import os
import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_PACKAGES = {"evaluators": "evaluator.py", "collector": "cli.py"}
"""Our packages, each with a file that shows it to be ours."""


def main() -> None:
    """Run a command. A service that is told to stop before it is imported has nothing to finish."""
    if sys.argv[1:2] == ["run"]:
        signal.signal(signal.SIGTERM, lambda _signal, _frame: os._exit(0))
    _import_ours(_root(sys.path))
    from collector.cli import main

    main()


def _root(path: list[str]) -> str | None:
    """The folder with our packages: where this file is installed, or what stands behind that on the path."""
    here = str(Path(__file__).parent)
    for candidate in [here, *path[path.index(here) + 1 :]] if here in path else [here, *path]:
        if all((Path(candidate) / package / file).is_file() for package, file in _PACKAGES.items()):
            return candidate
    return None


def _import_ours(root: str | None) -> None:
    if root is None:
        return
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name, [root])
        if spec is not None and spec.loader is not None and name not in sys.modules:
            module = module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
