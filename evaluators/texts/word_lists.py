"""Lists of words by what they do, read from text files.

A line `## NAME` begins a list, and a line that begins with `# ` is a comment. Any other line is an entry of the list.
"""

from importlib.resources import files


def load_words(package: str, name: str) -> dict[str, list[str]]:
    """The lists of a file in the folder of a package, by name."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in files(package).joinpath(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            words = lists[line[3:]] = []
        elif line and not line.startswith("#"):
            words.append(line)
    return lists
