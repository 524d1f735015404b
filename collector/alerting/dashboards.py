"""The Grafana dashboards that come with the package: the same JSON for every configuration, chosen by variables.

They are generated in `deploy/dashboards/`, with a library that the service does not need.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

FOLDER = "grafana"
"""The place of the files in a wheel."""


def dashboards() -> dict[str, bytes]:
    """Each dashboard's JSON by its file's name."""
    contents = {entry.name: entry.read_bytes() for entry in _folder().iterdir() if entry.name.endswith(".json")}
    return dict(sorted(contents.items()))


def write_dashboards(folder: Path) -> list[Path]:
    """Write the dashboards into a folder, which is made if it is not there; gives the files.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, content in dashboards().items():
        written.append(folder / name)
        written[-1].write_bytes(content)
    return written


def _folder() -> Traversable:
    package = files("collector")
    shipped = package / FOLDER
    # In a checkout, the package has no copy.
    return shipped if shipped.is_dir() else package / ".." / "deploy" / "grafana" / "dashboards"
