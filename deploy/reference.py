"""Writes the generated pages and tables of deploy/docs, the chart's schema and the library's public names.

Run it as `python -m deploy.reference`.
"""

# ruff: noqa: INP001 - scripts beside the pages that they write

from collections.abc import Callable, Mapping
from pathlib import Path

from collector.dialects import catalogue as dialects
from collector.telemetry import series
from deploy import chart_schema, commands_page, configuration_page, evaluators_page, public_names, rates
from evaluators import results

DOCS = Path(__file__).with_name("docs")


def pages() -> dict[Path, Callable[[], str]]:
    """Every page that is generated, in whole or between two markers, with what makes the text that it should have."""
    return {
        DOCS / "configuration.md": lambda: _spliced("configuration", {"keys": configuration_page.document()}),
        DOCS / "configuration-advanced.md": lambda: _spliced(
            "configuration-advanced", {"keys": configuration_page.advanced()}
        ),
        DOCS / "commands.md": commands_page.document,
        chart_schema.PATH: chart_schema.document,
        public_names.STUB: public_names.stub,
        DOCS / "evaluators.md": lambda: _spliced("evaluators", {"evaluators": evaluators_page.document()}),
        DOCS / "dialects.md": lambda: _spliced("dialects", {"dialects": f"{dialects.table()}\n{dialects.sections()}"}),
        DOCS / "metrics.md": lambda: _spliced("metrics", {"reasons": results.table(), "metrics": series.table()}),
        DOCS / "security.md": lambda: _spliced(
            "security", {"redaction": rates.redaction_table(), "injection": rates.injection_table()}
        ),
    }


def _spliced(page: str, tables: Mapping[str, str]) -> str:
    """The page with its tables replaced, each between two markers; the text around them is written by hand."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        _, marker, after = rest.partition(end)
        if not marker:
            raise ValueError(f"deploy/docs/{page}.md: put the table between {begin.strip()} and {end}")
        text = f"{before}{begin}\n{table.strip()}\n\n{end}{after}"
    return text


def write(path: Path, text: str) -> None:
    """Write a page unless it says so already: its time is that of its last change."""
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for path, text in pages().items():
        write(path, text())
