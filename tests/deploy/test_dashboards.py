"""The committed dashboards are those that the code makes, and what is shipped is what is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from collector.alerting.dashboards import dashboards, write_dashboards
from collector.alerting.rules.write import write
from collector.config.loading import load
from collector.telemetry.series import EVALUATIONS, EVALUATIONS_ENDED, JUDGE_COST
from deploy.dashboards.generate import DEPLOY, FOLDERS, files


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_committed_is_generated(folder: Path):
    committed = {path.name: path.read_text() for path in folder.iterdir()}
    assert committed == files(), "run: make dashboards"


def test_the_package_gives_them(tmp_path: Path):
    written = write_dashboards(tmp_path / "grafana")
    assert {path.name: path.read_text() for path in written} == files()
    assert list(dashboards()) == sorted(files())


@pytest.mark.parametrize("name", files())
def test_grafanas_own_model_reads_them_whole(name: str):
    """What the model does not know would be lost on the way through it."""
    values = json.loads(files()[name])
    through = json.loads(json.dumps(Dashboard.from_json(values), cls=JSONEncoder))
    assert through == values


def test_dashboards_have_names_of_their_own():
    made = [json.loads(each) for each in files().values()]
    assert {each["uid"] for each in made} == {f"evalstream-{name}" for name in ("quality", "trust", "cost", "plumbing")}


@pytest.mark.parametrize("name", files())
def test_every_panel_says_what_it_shows(name: str):
    for panel in json.loads(files()[name])["panels"]:
        assert panel["type"] == "row" or len(panel["description"]) > 10


@pytest.mark.parametrize("name", files())
def test_panels_lie_on_grafanas_grid(name: str):
    """24 columns; no two panels on one place, and each with a number of its own."""
    panels = json.loads(files()[name])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert places.isdisjoint(own), panel["title"]
        places |= own


@pytest.mark.parametrize("name", files())
def test_only_the_chosen_data_source_is_asked(name: str):
    for panel in json.loads(files()[name])["panels"]:
        for target in panel.get("targets", []):
            assert (target.get("datasource") or panel["datasource"])["uid"] == "${datasource}"


def test_scores_beside_their_cost_include_those_that_rejudge_makes():
    """Else a thousand scores cost half as much again after a run: the cost of judges includes what it makes."""
    panels = {panel["title"]: panel for panel in json.loads(files()["evalstream-cost.json"])["panels"]}
    for title in ("Cost of a thousand scores", "Where the money goes"):
        expressions = " ".join(target["expr"] for target in panels[title]["targets"])
        assert JUDGE_COST.name in expressions
        assert EVALUATIONS_ENDED.name in expressions, "each evaluation that ended, whatever time it is about"
        assert EVALUATIONS.name not in expressions, "leaves out what rejudge makes"


def test_the_command_writes_them_beside_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.setenv("PAGE_TOKEN", "not-a-token-but-long-enough")
    config = load(DEPLOY / "compose" / "evalstream.yaml")
    assert {path.name for path in write(config, (), tmp_path)} > set(files())
    assert sorted(path.name for path in (tmp_path / "grafana").iterdir()) == sorted(files())
    only_rules = write(config, ["prometheus"], tmp_path / "only")
    assert [path.name for path in only_rules] == ["evalstream.rules.yml"]
