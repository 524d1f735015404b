"""The frame of every dashboard: its name, variables, links to the others, and marks of new versions."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import dashboard as boards, prometheus
from grafana_foundation_sdk.models import dashboard as models

from collector.telemetry.series import BUILD_INFO, CONFIG_INFO, ESTIMATOR_W, RELEASE_STARTED
from deploy.dashboards.panels import SOURCE

NEW = "sum by ({by}) ({name}{where}) unless sum by ({by}) ({name}{where} offset 5m)"
"""What was not there five minutes ago."""


def frame(name: str, description: str, *, one_monitor: bool = False) -> boards.Dashboard:
    """An empty dashboard `evalstream / name`. With `one_monitor`, the choice is of one monitor at a time."""
    board = (
        boards.Dashboard(f"evalstream / {name}")
        .uid(f"evalstream-{name}")
        .description(description)
        .tags(["evalstream"])
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-24h", "now")
        .timezone("browser")
        .refresh("1m")
        .with_variable(boards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_of_label("monitor", "", multi=not one_monitor))
        .with_variable(_of_label("evaluator", '{monitor=~"$monitor"}'))
        .link(_links())
    )
    for mark in _marks():
        board = board.annotation(mark)
    return board


def filled(board: boards.Dashboard, rows: Mapping[str, Sequence[Any]]) -> boards.Dashboard:
    """The dashboard with rows of panels, by their titles. Panels are numbered, so that a link to one stays."""
    numbers = count(1)
    for title, panels in rows.items():
        board = board.with_row(boards.Row(title).id(next(numbers)))
        for panel in panels:
            board = board.with_panel(panel.id(next(numbers)))
    return board


def segment() -> boards.QueryVariable:
    """The choice of segments."""
    return _of_label("segment", '{monitor=~"$monitor",evaluator=~"$evaluator"}')


def window() -> boards.CustomVariable:
    """Over how long a mean is taken."""
    return boards.CustomVariable("window").label("Mean over").values("15m,1h,6h,24h").current(_chosen("1h"))


def _of_label(label: str, where: str, *, multi: bool = True) -> boards.QueryVariable:
    variable = (
        boards.QueryVariable(label)
        .label(label.capitalize())
        .datasource(SOURCE)
        .query(f"label_values({ESTIMATOR_W.name}{where}, {label})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(multi)
    )
    if multi:
        return variable.include_all(True).all_value(".*").current(_chosen("All", "$__all"))
    return variable


def _chosen(text: str, value: str | None = None) -> models.VariableOption:
    return models.VariableOption(selected=True, text=text, value=value or text)


def _links() -> boards.DashboardLink:
    return (
        boards.DashboardLink("evalstream")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["evalstream"])
        .include_vars(True)
        .keep_time(True)
    )


def _marks() -> Iterator[boards.AnnotationQuery]:
    """Marks of what may have moved a mean that is not the application."""
    versions = NEW.format(
        by="monitor, evaluator, evaluator_version",
        name=ESTIMATOR_W.name,
        where='{monitor=~"$monitor",evaluator=~"$evaluator"}',
    )
    yield _mark(
        "New versions", versions, "purple", "{{evaluator}} {{evaluator_version}}", "rubric, settings or judge changed"
    )
    configuration = NEW.format(by="hash", name=CONFIG_INFO.name, where="")
    yield _mark("Configuration", configuration, "blue", "configuration {{hash}}", "a process runs it from here on")
    releases = NEW.format(by="attribute, version", name=RELEASE_STARTED.name, where='{monitor=~"$monitor"}')
    yield _mark("Releases", releases, "orange", "{{attribute}} {{version}}", "a new version of the application")
    deploys = NEW.format(by="version", name=BUILD_INFO.name, where="")
    yield _mark("Deploys", deploys, "green", "evalstream {{version}}", "a process of this version runs from here on")


def _mark(name: str, expr: str, colour: str, title: str, text: str) -> boards.AnnotationQuery:
    return (
        boards.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(colour)
        .expr(expr)
        .title_format(title)
        .text_format(text)
        .target(prometheus.Dataquery().expr(expr).ref_id("A"))
    )
