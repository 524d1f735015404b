"""Panels in the form that all dashboards share: one look, one place that knows the SDK's panel builders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard as boards, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    DataSourceRef,
    GraphThresholdsStyleMode,
    HeatmapCellLayout,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

Panel = Builder[models.Panel]
Shown = TypeVar("Shown", timeseries.Panel, stat.Panel, table.Panel, heatmap.Panel)


@dataclass(frozen=True, slots=True)
class Query:
    """One expression. `legend` names, in braces, the labels its result has; tests hold it to that."""

    expr: str
    legend: str
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What a panel shows beside its queries."""

    title: str
    description: str
    unit: str = "short"
    width: int = 12
    height: int = 8
    low: float | None = None
    high: float | None = None
    steps: Sequence[tuple[float, str]] = field(default=())
    """Thresholds: from which value on which colour."""
    base: str = "green"
    """The colour below the first threshold."""


def _lettered(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery()
        .expr(each.expr)
        .legend_format(each.legend)
        .exemplar(each.exemplars)
        .ref_id(chr(ord("A") + place))
        for place, each in enumerate(queries)
    ]


def _thresholds(look: Look) -> boards.ThresholdsConfig:
    base = models.Threshold(value=None, color=look.base)
    return (
        boards.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([base, *(models.Threshold(value=value, color=color) for value, color in look.steps)])
    )


def _shown(panel: Shown, look: Look) -> Shown:
    """The panel with its words, its place and where its data come from."""
    return panel.title(look.title).description(look.description).datasource(SOURCE).span(look.width).height(look.height)


def lines(look: Look, *queries: Query, stacked: bool = False) -> timeseries.Panel:
    """Values over time."""
    panel = (
        _shown(timeseries.Panel(), look)
        .unit(look.unit)
        .line_width(2)
        .fill_opacity(25 if stacked else 0)
        .show_points(VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        .targets(_lettered(queries))
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if look.low is not None:
        panel = panel.min(look.low)
    if look.high is not None:
        panel = panel.max(look.high)
    if look.steps:
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds(look)).thresholds_style(style)
    return panel


def band(look: Look, mean: Query, low: Query, high: Query, target: Query) -> timeseries.Panel:
    """A mean within its error, and where it should be. Each query gives one series: fills go between names."""
    quiet = [
        models.DynamicConfigValue(id_val="custom.lineWidth", value=0),
        models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": "blue"}),
        models.DynamicConfigValue(id_val="custom.hideFrom", value={"legend": True, "tooltip": False, "viz": False}),
    ]
    filled = [
        models.DynamicConfigValue(id_val="custom.fillBelowTo", value=low.legend),
        models.DynamicConfigValue(id_val="custom.fillOpacity", value=20),
    ]
    dashed = [
        models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": "orange"}),
        models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 6]}),
    ]
    blue = [models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": "blue"})]
    return (
        lines(look, mean, low, high, target)
        .override_by_name(mean.legend, blue)
        .override_by_name(low.legend, quiet)
        .override_by_name(high.legend, [*quiet, *filled])
        .override_by_name(target.legend, dashed)
    )


def number(look: Look, *queries: Query) -> stat.Panel:
    """The present value, large."""
    panel = (
        _shown(stat.Panel(), look)
        .unit(look.unit)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value("no data")
        .targets(_lettered(queries))
    )
    return panel.thresholds(_thresholds(look)) if look.steps else panel


Link = tuple[str, str]
"""What a link says, and its address; `${__data.fields.…}` in it is the value of another column of its row."""


def rows(
    look: Look,
    columns: Sequence[str],
    *queries: Query,
    first: str | None = None,
    links: Mapping[str, Sequence[Link]] | None = None,
) -> table.Panel:
    """The present values, one row for each set of labels; `columns` names the queries' values in their order.

    The rows with the largest values in the column `first` are on top. `links` are those of a column's cells.
    """
    names = {f"Value #{chr(ord('A') + place)}": name for place, name in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0]}
    targets = [each.instant().format(PromQueryFormat.TABLE) for each in _lettered(queries)]
    panel = table.Panel()
    if first is not None:
        panel = panel.sort_by([common.TableSortByFieldState().display_name(first).desc(True)])
    for column, each in (links or {}).items():
        addresses = [{"title": title, "url": url} for title, url in each]
        panel = panel.override_by_name(column, [models.DynamicConfigValue(id_val="links", value=addresses)])
    return (
        _shown(panel, look)
        .unit(look.unit)
        .decimals(3)
        .targets(targets)
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": names}
            )
        )
    )


def levels(look: Look, query: Query) -> heatmap.Panel:
    """A classic histogram over time; exemplars are dots that lead to their trace."""
    target = _lettered([query])[0].format(PromQueryFormat.HEATMAP)
    return (
        _shown(heatmap.Panel(), look)
        .calculate(False)
        .rows_frame(heatmap.RowsHeatmapOptions().layout(HeatmapCellLayout.LE))
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(64))
        .targets([target])
    )
