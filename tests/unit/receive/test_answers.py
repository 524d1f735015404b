"""The answers of the receivers: `ingest.md` has a row for each."""

from __future__ import annotations

import re
from pathlib import Path

from collector.receive.rejection import MEANINGS

PAGE = Path(__file__).parents[3] / "deploy" / "docs" / "ingest.md"


def test_the_table_of_answers_has_every_status() -> None:
    """415 was missing, and so were 401, 403, 404, 405, 408 and 500."""
    rows = [
        ([int(status) for status in re.findall(r"\d{3}", over_http)], over_grpc.split(", "))
        for over_http, over_grpc in re.findall(
            r"^\| ([^|]*\d{3}[^|]*) \| ([A-Z_, ]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    listed = {status for statuses, _ in rows for status in statuses}
    assert listed == {200, *MEANINGS}
    for status, meaning in MEANINGS.items():
        code = meaning.over_grpc
        assert any(status in statuses and code in codes for statuses, codes in rows), (status, code)
