"""A folder with plug-ins, named by a configuration: Python files without a package, an installation or a search path.

The files become modules of a package that has a name of its own, so `evaluators.py` in it is neither taken for our
package nor hides it. To `importlib.metadata` they are the entry points of one more distribution.
"""

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import Distribution, DistributionFinder, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from collector.errors import ConfigError
from collector.plugins.shapes import DIALECTS, EVALUATORS, EXPORTERS, PARTS_OF_EXPORTER, THINGS, breaches
from evaluators.evaluator import Evaluator
from evaluators.promises import FAULTS


class PluginFolder(MetaPathFinder):
    """An opened folder. `package` is the name of the package that its files are modules of."""

    def __init__(self, path: Path, package: str) -> None:
        self.path = path
        self.package = package
        self.digest = self.present_digest()
        """Stands for the content of the files when the folder was opened."""
        self.idle: list[str] = []
        """Names of the modules in which no plug-in was found."""
        self._entry_points = ""

    def present_digest(self) -> str:
        """The `digest` of the files as they are now."""
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in sorted(self.path.rglob("*.py")))).hexdigest()

    def set_plugins(self, points: Iterable[tuple[str, str, str]]) -> None:
        """Set the plug-ins, in place of any before: group, name, `module:Name`."""
        self._entry_points = "\n".join(f"[{group}]\n{name} = {reference}" for group, name, reference in points)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A file of the folder, read as it is now; None for a module of others."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(f"{self.package}.") else None
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Uncached(fullname, spec.loader.path)
        return spec

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """The distribution with the folder's entry points."""
        if context.name is None:
            yield _FolderDistribution(self.package, self._entry_points)

    def module(self, name: str) -> str | None:
        """The full name of the module that a file of this name is; None if there is no such file."""
        top = name.partition(".")[0]
        return f"{self.package}.{name}" if (self.path / f"{top}.py").is_file() or (self.path / top).is_dir() else None


class _Uncached(SourceFileLoader):
    """Reads the source alone: bytecode of before passes for a file of the same size that changed within a second."""

    def path_stats(self, path: Any) -> Any:  # noqa: ARG002
        raise OSError


class _FolderDistribution(Distribution):
    def __init__(self, name: str, points: str) -> None:
        self._files = {"entry_points.txt": points, "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n"}

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: Any) -> Any:
        return Path(path)


def folders() -> list[PluginFolder]:
    """The folders that were opened in this process."""
    return [finder for finder in sys.meta_path if isinstance(finder, PluginFolder)]


def open_folder(path: Path) -> PluginFolder:
    """Load the plug-ins of a folder, once. They are available from now on by their names.

    Evaluators are named by their `kind`, dialects by their `name`, an exporter by its file. Files whose names begin
    with `_` are left to the others to import.

    Raises:
        ConfigError: it is no folder, a file in it cannot be loaded, or a name is taken.
    """
    resolved = path.resolve()
    package = f"evalstream_plugins_{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"
    for folder in folders():
        if folder.package == package:
            return folder
    if not resolved.is_dir():
        raise ConfigError(f"plugins: {path}: no such folder; name the one that your plug-ins are in")
    module = ModuleType(package)
    module.__path__ = [str(resolved)]
    sys.modules[package] = module
    folder = PluginFolder(resolved, package)
    sys.meta_path.insert(0, folder)
    try:
        folder.set_plugins(_points(folder))
    except BaseException:
        sys.meta_path.remove(folder)
        for name in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
            del sys.modules[name]
        raise
    return folder


def _points(folder: PluginFolder) -> list[tuple[str, str, str]]:
    """Group, name and reference of every plug-in, each from the first file that has it."""
    points: dict[tuple[str, str], str] = {}
    for name in sorted(_modules(folder.path)):
        module = _imported(folder, name)
        if not (named := list(_plugins_of(module, name))):
            folder.idle.append(name)
        for group, plugin, attribute in named:
            for breach in breaches(group, getattr(module, attribute)):
                raise ConfigError(f"plugins: {breach}")
            reference = f"{folder.package}.{name}:{attribute}"
            where = f"plugins: {folder.path.name}/{name}.py: the {THINGS[group]} {plugin!r}"
            for point in entry_points(group=group):
                if point.name == plugin:
                    raise ConfigError(f"{where} exists already, in {point.module}; choose another name")
            if (first := points.setdefault((group, plugin), reference)) != reference:
                file, _, other = first.removeprefix(f"{folder.package}.").partition(":")
                both = f"is {attribute} here and {other} in {folder.path.name}/{file}.py"
                raise ConfigError(f"{where} {both}; choose another name for one")
    return [(group, plugin, reference) for (group, plugin), reference in points.items()]


def _modules(path: Path) -> Iterator[str]:
    for each in path.iterdir():
        is_package = (each / "__init__.py").is_file()
        name = each.name if is_package else each.stem
        if (is_package or each.suffix == ".py") and not name.startswith("_"):
            yield name


def _imported(folder: PluginFolder, name: str) -> ModuleType:
    if not name.isidentifier():
        raise ConfigError(
            f"plugins: {folder.path.name}/{name}.py: no module has such a name; use letters, digits and _"
        )
    try:
        return importlib.import_module(f"{folder.package}.{name}")
    except FAULTS as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder.path)]
        line = f", line {own[-1].lineno}" if own else ""
        reason = f"cannot be loaded{line} ({type(error).__name__}: {error})"
        raise ConfigError(f"plugins: {folder.path.name}/{name}.py: {reason}") from error


def _plugins_of(module: ModuleType, name: str) -> Iterator[tuple[str, str, str]]:
    """Group, name and attribute of each plug-in that is made in a module, not imported into it."""
    for attribute, value in vars(module).items():
        if attribute.startswith("_"):
            continue
        if isinstance(value, type):
            made_here = value.__module__ == module.__name__
            kind: Any = getattr(value, "kind", None)  # pyright: ignore[reportUnknownArgumentType]
            if made_here and issubclass(value, Evaluator):
                if not value.__subclasses__() or (isinstance(kind, str) and not inspect.isabstract(value)):  # pyright: ignore[reportUnknownArgumentType]
                    yield EVALUATORS, kind, attribute
            elif made_here and hasattr(value, "export") and any(hasattr(value, part) for part in PARTS_OF_EXPORTER[:2]):  # pyright: ignore[reportUnknownArgumentType]
                yield EXPORTERS, name, attribute
        elif all(hasattr(value, each) for each in ("name", "rank", "read", "evidence", "coverage")):
            yield DIALECTS, value.name, attribute
