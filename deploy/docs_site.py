"""MkDocs hooks: the site shows the repository as it is, and follows its links out of deploy/docs.

Pages link to files as they stand in the repository, so that links also work where the repository is browsed. For the
site, what they link to outside of deploy/docs is taken along: runbooks as pages of their own, other pages and files
below `repository/`.
"""

# ruff: noqa: INP001 - a script beside the pages that it shows

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FOLDERS = {"deploy/docs/": "", "deploy/runbooks/": "runbooks/", "deploy/pictures/": "pictures/"}
"""Folders of the repository with a place of their own in the site; everything else goes below `repository/`."""
SHOWN_AS_IS = {".md", ".svg", ".png", ".css"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is linked from the pages, and what these link to in turn."""
    known = {f"deploy/docs/{file.src_uri}" for file in files}
    waiting = [
        *known,
        *_in("deploy/runbooks", "*.md"),
        *_in("deploy/pictures", "*.svg"),
        *_in("deploy/pictures", "*.css"),
    ]
    taken: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in taken:
            continue
        taken.add(path)
        if path not in known:
            files.append(_file(path, config))
        if path.endswith(".md"):
            waiting += [target for link in LINK.findall(_text(path)) if (target := _target(path, link))]
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    del config, files
    source = _source(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = _target(source, link[1])
        return link[1] if target is None else posixpath.relpath(_site(target), posixpath.dirname(_site(source)) or ".")

    return LINK.sub(moved, markdown)


def _in(folder: str, pattern: str) -> Iterator[str]:
    return (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob(pattern))


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _target(source: str, link: str) -> str | None:
    """The file of the repository that a link leads to; of a folder its README. None for what is not there."""
    path = (ROOT / source).parent.joinpath(link).resolve()
    file = path / "README.md" if path.is_dir() else path
    return file.relative_to(ROOT).as_posix() if file.is_file() and file.is_relative_to(ROOT) else None


def _site(path: str) -> str:
    """Where a file of the repository is in the site's sources."""
    for folder, site in FOLDERS.items():
        if path.startswith(folder):
            return site + path.removeprefix(folder)
    return f"repository/{path}" if Path(path).suffix in SHOWN_AS_IS else f"repository/{path}.md"


def _source(site: str) -> str:
    """The file of the repository that a page of the site is made from."""
    if site.startswith("repository/"):
        path = site.removeprefix("repository/")
        return path if (ROOT / path).exists() else path.removesuffix(".md")
    folder = next(folder for folder, prefix in reversed(FOLDERS.items()) if site.startswith(prefix))
    return folder + site.removeprefix(FOLDERS[folder])


def _file(path: str, config: Any) -> File:
    if Path(path).suffix in SHOWN_AS_IS:
        return File.generated(config, _site(path), abs_src_path=str(ROOT / path))
    language = {".yaml": "yaml", ".yml": "yaml", ".py": "python"}.get(Path(path).suffix, "text")
    return File.generated(config, _site(path), content=f"# {path}\n\n````{language}\n{_text(path)}````\n")
