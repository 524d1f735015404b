"""Lists of words by what they do, read from the text files of this folder.

A line `## NAME` begins a list, and a line that begins with `# ` is a comment. Any other line is a regular expression in
lower case, of which alternatives on several lines are the same as on one.
"""

from importlib.resources import files


def load_words(name: str) -> dict[str, list[str]]:
    """The lists of a file, by name."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in files(__package__ or "").joinpath(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            words = lists[line[3:]] = []
        elif line and not line.startswith("#"):
            words.append(line)
    return lists
