import re

from collector.dialects.catalogue import sections, table
from collector.plugins import DIALECTS, names


def test_every_dialect_has_a_row_and_delivers_something() -> None:
    rows = {re.findall(r"\[`(\w+)`\]", line)[0]: line for line in table().splitlines()[2:]}
    assert sorted(rows) == names(DIALECTS)
    assert all(len(line.strip("|").split(" | ")) == 3 for line in rows.values())


def test_every_dialect_has_a_section_with_what_it_delivers() -> None:
    shown = re.findall(r"^### (\w+)\n\n((?:- .+\n)+)", sections(), re.MULTILINE)
    rows = {re.findall(r"\[`(\w+)`\]", line)[0]: line.strip("| ").split(" | ")[2] for line in table().splitlines()[2:]}
    has = {name: re.findall(r"^- (\w+): (?!none)", block, re.MULTILINE) for name, block in shown}
    assert has == {name: ["messages", *more.split(", ")] for name, more in rows.items()}
