"""Divides the budgets that partitions saved among another number of partitions."""

from collections.abc import Mapping, Sequence
from typing import Any

from collector.evaluate.planned_rates.rate_planner import divided


def divide(saved: Sequence[Mapping[str, Any]], partitions: int) -> Mapping[str, Any]:
    """An equal part of the saved budgets for each of `partitions`, as each has an equal part of the limits."""
    windows: dict[str, dict[float, dict[str, Any]]] = {}
    demands: dict[tuple[str, str], float] = {}
    for state in saved:
        for name, parts in state["windows"].items():
            for window in parts:
                _add(windows.setdefault(name, {}), window, partitions)
        for monitor, evaluator, per_second in state["demands"]:
            if per_second is not None:
                demands[monitor, evaluator] = demands.get((monitor, evaluator), 0.0) + per_second / partitions
    planned = [state["planned"] for state in saved if "planned" in state]
    return {
        **{key: value for state in saved for key, value in state.items() if key in ("costs", "paid_shares")},
        **({"planned": divided(planned, partitions)} if planned else {}),
        "windows": {
            name: [
                window | {"parts": [list(part) for part in window["parts"].items()]} for window in by_period.values()
            ]
            for name, by_period in windows.items()
        },
        "demands": [[*names, per_second] for names, per_second in demands.items()],
    }


def _add(by_period: dict[float, dict[str, Any]], window: Mapping[str, Any], partitions: int) -> None:
    total = by_period.setdefault(
        window["period"], {"period": window["period"], "credit": 0.0, "time": window["time"], "parts": {}}
    )
    total["credit"] += window["credit"] / partitions
    total["time"] = max(total["time"], window["time"])
    for part, usd in window["parts"]:
        total["parts"][part] = total["parts"].get(part, 0.0) + usd / partitions
