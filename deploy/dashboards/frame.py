"""The frame of every dashboard: its name, variables, links to the others, and marks of new versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models import dashboard as models

from collector.telemetry.series import ESTIMATOR_W
from deploy.dashboards.panels import SOURCE

NEW_VERSION = (
    "sum by (monitor, evaluator, evaluator_version) ({name}{where})"
    " unless sum by (monitor, evaluator, evaluator_version) ({name}{where} offset 5m)"
)


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
    return board.annotation(_new_versions())


def filled(board: boards.Dashboard, rows: Mapping[str, Sequence[object]]) -> boards.Dashboard:
    """The dashboard with rows of panels, by their titles."""
    for title, panels in rows.items():
        board = board.with_row(boards.Row(title))
        for panel in panels:
            board = board.with_panel(panel)
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


def _new_versions() -> boards.AnnotationQuery:
    where = '{monitor=~"$monitor",evaluator=~"$evaluator"}'
    expr = NEW_VERSION.format(name=ESTIMATOR_W.name, where=where)
    return (
        boards.AnnotationQuery()
        .name("New versions")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("purple")
        .expr(expr)
        .title_format("{{evaluator}} {{evaluator_version}}")
        .text_format("rubric, settings or judge changed")
        .target(prometheus.Dataquery().expr(expr).ref_id("A"))
    )
