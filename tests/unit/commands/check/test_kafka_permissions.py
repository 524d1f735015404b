"""`check --verbose` lists the permissions that the page on Kafka does."""

import re
from pathlib import Path

from configurations import checked

from collector.commands.check.kafka_plan import kafka_lines

PAGE = Path(__file__).parents[4] / "deploy/docs/kafka.md"
SERVERS = {"bootstrap_servers": ["127.0.0.1:1"]}


def documented(resource: str) -> set[str]:
    """The operations in the row of a resource."""
    (operations,) = re.findall(rf"(?m)^\| {re.escape(resource)}[^|]*\| (.*) \|$", PAGE.read_text())
    return set(re.findall(r"`([A-Z_]+)`", operations))


def test_every_permission_that_a_service_needs_is_listed_with_its_topics_or_groups() -> None:
    """An administrator granted what the lines had; that was no READ of the groups of a source with its own `group`."""
    config = checked(
        {"same": {"kind": "exact_match"}},
        log={"kind": "kafka", "kafka": {**SERVERS, "prefix": "live"}},
        receive={
            "kafka": [
                {**SERVERS, "traces": ["a", "b"], "group": "mine"},
                {**SERVERS, "traces": ["c"]},
            ]
        },
        export={"spans": {"kafka": {**SERVERS, "topic": "out"}}},
    )
    lines = "\n".join(kafka_lines(config, offline=True))
    granted = {
        resource: set(re.findall(r"\b[A-Z_]{4,}\b", operations))
        for resource, operations in re.findall(r"((?:topics|groups) [^:;\n]+): ([^;\n]*)", lines)
    }
    assert granted == {
        "topics live.*": documented("topics that begin with `<prefix>.`"),
        "groups live.*": documented("groups that begin with `<prefix>.`, such as"),
        "topics a and b": documented("source topics"),
        "groups mine.*": documented("groups that begin with `<group>.`"),
        "topics c": documented("source topics"),
        "topics out": documented("the topic of `export.spans.kafka`"),
    }
