"""Writes the dashboards: `python -m deploy.dashboards.generate`."""

import json
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.dashboards.cost import cost
from deploy.dashboards.plumbing import plumbing
from deploy.dashboards.quality import quality
from deploy.dashboards.trust import trust

DEPLOY = Path(__file__).resolve().parents[1]
FOLDERS = (DEPLOY / "grafana" / "dashboards", DEPLOY / "helm" / "evalstream" / "dashboards")
"""Where the files go: for provisioning from files, and for the chart, which can read only what lies within it."""

DASHBOARDS = {"quality": quality, "trust": trust, "cost": cost, "plumbing": plumbing}


def text(board: boards.Dashboard) -> str:
    """A dashboard as Grafana reads it."""
    values = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """Every dashboard by its file's name."""
    return {f"evalstream-{name}.json": text(make()) for name, make in DASHBOARDS.items()}


def main() -> None:
    """Write them all."""
    for folder in FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files().items():
            (folder / name).write_text(content)


if __name__ == "__main__":
    main()
