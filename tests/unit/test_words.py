"""One word for one thing, one reading for one sentence: private words, names that occur twice, phrases of another age
and sentences whose subject is a clause ("What is stored …") are refused.

The words stand in tests/unit/words.md. What is left of them in the code is listed in `words_remaining.txt`:
the list only shrinks, as an entry that no longer occurs fails, too. `python tests/unit/test_words.py` takes these out.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REMAINING = Path(__file__).with_name("words_remaining.txt")
PAGES = ("*.md", "deploy/**/*.md", "collector/**/*.md", "evaluators/**/*.md", "tests/**/*.md", "deploy/**/*.yaml")
PUBLIC = {
    "kept_mass": "a field of evaluation records",
    "given_at": "a field of label records",
    "given_by": "a field of label records",
    "NOT_FOUND": "gRPC's own name",
    "HTTPNotFound": "aiohttp's own name",
    "throw": "a generator's own name",
}
"""Names that are not ours to change."""
NOT_PROSE = ("tests/unit/words.md", "tests/bench/RESULTS.md", "tests/bench/BUDGETS.md")
"""Pages that list the phrases, or hold what was measured."""


def refused(heading: str) -> dict[str, str]:
    """The refused words or phrases of a section of words.md, each with what to write instead."""
    page = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    return {word: instead for instead, words in rows for word in words.split(", ")}


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of both packages, with the folder that its entries go under."""
    for top in ("collector", "evaluators"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            yield "/".join(parts[: 2 if len(parts) > 2 else 1]), path


@cache
def tokens(path: Path) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline))


@cache
def private_names() -> set[str]:
    """Identifiers with a refused word in them, as `folder: identifier`."""
    words = set(refused("Words"))
    return {
        f"{folder}: {token.string}"
        for folder, path in sources()
        for token in tokens(path)
        if token.type == tokenize.NAME and token.string not in PUBLIC and words & set(parts_of(token.string))
    }


def parts_of(identifier: str) -> list[str]:
    """The words of snake_case and CamelCase."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)]


@cache
def duplicate_classes() -> set[str]:
    """Class names that are defined more than once, as `class: name`."""
    counts = Counter(
        name
        for _, path in sources()
        for name in re.findall(r"^ *class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if name != "Settings"  # a plug-in's own, read by that name
    )
    return {f"class: {name}" for name, count in counts.items() if count > 1}


def texts() -> Iterator[tuple[str, str]]:
    """Every page, and the docstrings, comments and messages of every module, by the path that has them."""
    for path in sorted({path for pattern in PAGES for path in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT).as_posix()
        if name not in NOT_PROSE and not name.startswith(
            "evaluators/prompts/"
        ):  # prompts are part of evaluators' versions
            yield name, path.read_text(encoding="utf-8")
    for _, path in sources():
        kinds = (tokenize.STRING, tokenize.COMMENT)
        yield path.relative_to(ROOT).as_posix(), " ".join(token.string for token in tokens(path) if token.type in kinds)


@cache
def old_phrases() -> set[str]:
    """Refused phrases, as `path: phrase`."""
    pattern = re.compile(rf"\b({'|'.join(refused('Style'))})\b", re.IGNORECASE)
    return {f"{path}: {phrase.lower()}" for path, text in texts() for phrase in pattern.findall(" ".join(text.split()))}


HEADLESS = re.compile(r"\W*(?:What|Whatever|Who|Whoever|Whose|Which|Where)\b")
BEGINNING = 6
"""Words of a sentence in the list: enough to find it, and few enough that its end can be edited."""


def docstrings(path: Path) -> Iterator[str]:
    """Every string that is a statement: the docstrings of modules, classes, functions and attributes."""
    before = tokenize.NEWLINE
    for token in tokens(path):
        if token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield token.string.lstrip("r").strip('"')
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


def prose(page: str) -> str:
    """A page without code, comments, headings, tables and the addresses of links."""
    page = re.sub(r"```.*?```|<!--.*?-->", " ", page, flags=re.DOTALL)
    page = "\n".join(line for line in page.splitlines() if not line.lstrip().startswith(("|", "#", "<", "!", ">")))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page)


def headless(text: str) -> Iterator[str]:
    """The sentences, also after a semicolon, whose subject is a clause. A question is none of them."""
    for block in re.split(r"\n\s*\n|\n\s*[-*\d]+[.)]?\s", text):
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"“`*])|; ", " ".join(block.split())):
            if HEADLESS.match(sentence) and not sentence.endswith(("?", "?**")):
                yield sentence


@cache
def headless_sentences() -> set[str]:
    """Sentences of pages and docstrings that begin with a clause as their subject, as `path: beginning`."""
    pages = [(name, prose(text)) for name, text in texts() if name.endswith(".md")]
    modules = [(path.relative_to(ROOT).as_posix(), text) for _, path in sources() for text in docstrings(path)]
    return {
        f"{name}: {' '.join(sentence.split()[:BEGINNING])}"
        for name, text in pages + modules
        for sentence in headless(text)
    }


FINDERS = {
    "names": private_names,
    "classes": duplicate_classes,
    "phrases": old_phrases,
    "headless": headless_sentences,
}


def remaining(section: str) -> set[str]:
    """The allowed entries of a section of the list."""
    block = REMAINING.read_text(encoding="utf-8").partition(f"[{section}]\n")[2].partition("\n[")[0]
    return {line for line in block.splitlines() if line}


@pytest.mark.parametrize("section", FINDERS)
def test_nothing_new(section: str) -> None:
    new = sorted(FINDERS[section]() - remaining(section))
    assert new == [], "tests/unit/words.md, 'Words' and 'Style', has what to write instead"


@pytest.mark.parametrize("section", FINDERS)
def test_the_list_shrinks(section: str) -> None:
    gone = sorted(remaining(section) - FINDERS[section]())
    assert gone == [], f"no longer there: take them out of {REMAINING.name} (python tests/unit/test_words.py does)"


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [("_said_when", ["said", "when"]), ("PurseTill", ["purse", "till"]), ("HTTPServer", ["http", "server"])],
)
def test_identifiers_are_taken_apart(identifier: str, parts: list[str]) -> None:
    assert parts_of(identifier) == parts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is stored is signed.", ["What is stored is signed."]),
        ("Spans are signed. Where they\nare not, stop.", ["Where they are not, stop."]),
        ("- Which turns come first depends on the order.", ["- Which turns come first depends on the order."]),
        ("What does it cost? **Who watches the watcher?**", []),
        ("Tells what is stored, and where.", []),
    ],
)
def test_sentences_without_a_head(text: str, found: list[str]) -> None:
    assert list(headless(text)) == found


if __name__ == "__main__":  # shrinks the list; new entries are fixed or written in by hand
    still_there = {section: sorted(find() & remaining(section)) for section, find in FINDERS.items()}
    REMAINING.write_text(
        "\n".join(f"[{name}]\n" + "".join(f"{row}\n" for row in rows) for name, rows in still_there.items())
    )
