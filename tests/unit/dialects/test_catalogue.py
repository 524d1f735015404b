import re

from collector.dialects.catalogue import sections, table
from collector.plugins import DIALECTS, names


def test_every_dialect_has_a_row_and_delivers_something() -> None:
    rows = {re.findall(r"\[`(\w+)`\]", line)[0]: line for line in table().splitlines()[2:]}
    assert sorted(rows) == names(DIALECTS)
    for line in rows.values():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 8
        assert "yes" in cells[2:]


def test_every_dialect_has_a_section_with_what_it_delivers() -> None:
    shown = re.findall(r"^### (\w+)\n\n((?:- .+\n)+)", sections(), re.MULTILINE)
    rows = {re.findall(r"\[`(\w+)`\]", line)[0]: line.count("| yes") for line in table().splitlines()[2:]}
    assert {name: len(re.findall(r"^- \w+: (?!none)", block, re.MULTILINE)) for name, block in shown} == rows
