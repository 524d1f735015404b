"""What is found in texts that were written before the patterns were read is no less than what the docs publish."""

from __future__ import annotations

import pytest
from stranger_sets import rates_of

PUBLISHED = {"a": {"judges": (42, 0), "signs": (44, 2), "redaction": (108, 2)}, "b": {"judges": (36, 0), "signs": (34, 0), "redaction": (105, 2)}}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_rates_hold(name):
    for kind, missed, count, wrong, _ in rates_of(name):
        found, most_wrong = PUBLISHED[name][kind]
        assert count - len(missed) >= found, (kind, missed)
        assert len(wrong) <= most_wrong, (kind, wrong)
