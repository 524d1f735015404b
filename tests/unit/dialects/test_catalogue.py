from pathlib import Path

from collector.dialects.catalogue import table
from collector.plugins import DIALECTS, names

README = Path(__file__).parents[3] / "README.md"


def test_the_readmes_table_is_generated() -> None:
    shown = README.read_text().partition("<!-- dialects:begin -->\n")[2].partition("<!-- dialects:end -->")[0]
    assert shown == table()


def test_every_dialect_has_a_row_and_says_what_it_carries() -> None:
    rows = {line.split(" | ")[0].strip("| `"): line for line in table().splitlines()[2:]}
    assert sorted(rows) == names(DIALECTS)
    for line in rows.values():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 8
        assert any(cell not in ("", "–") for cell in cells[2:])
