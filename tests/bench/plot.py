"""The growth figures as a picture: `python plot.py results.json growth.png`, with the Python of the peers' environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    results = json.loads(Path(sys.argv[1]).read_text())
    lines: dict[str, list[tuple[int, float]]] = {}
    for each in results["figures"]:
        if each["group"] == "growth":
            name, _, times = each["name"].rpartition(", ")
            lines.setdefault(name, []).append((int(times.rstrip("x")), each["ratio"]))
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    for number, (name, points) in enumerate(lines.items()):
        axes.plot(
            *zip(*points, strict=True), marker="os^Dv"[number % 5], linestyle="-" if number < 5 else "--", label=name
        )
    axes.axhline(1.0, color="0.6", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 4, 16], ["1x", "4x", "16x"])
    axes.set_ylim(0, max(2.0, *(ratio for points in lines.values() for _, ratio in points)) * 1.05)
    axes.set_xlabel("how many there are")
    axes.set_ylabel("CPU per item, relative to 1x")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
