"""What is wrong with the cascades of a configuration."""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.settings import Settings
from collector.wording import unknown


def cascade_mistakes(settings: Settings) -> Iterator[str]:
    """One sentence for each mistake."""
    known = sorted({*settings.judges, *settings.juries})
    for name, cascade in settings.cascades.items():
        if name in known:
            yield f"cascades.{name}: a judge or a jury has this name too; rename the cascade"
        for key, judge in (("first", cascade.first), ("then", cascade.then)):
            if judge in settings.cascades:
                yield f"cascades.{name}.{key}: {judge} is a cascade itself; name a judge or a jury"
            elif judge not in known:
                yield f"cascades.{name}.{key}: {unknown('judge', judge, known)}"
        if cascade.first == cascade.then:
            yield f"cascades.{name}.then: is the same as first; name a stronger judge, or write judge: {cascade.first}"
