"""How far do cores and clocks of a CPU tell the time of a network? Beside 1 / (clock x cores).

    python benchmarks/cpu_cores.py [--data ../shared/data]

Segmentation networks on the CPU of an AGX Xavier with ONNX Runtime, in five modes of two to eight
cores (``recorded/cpu_cores.py``). k modes are taken as measured, in every choice, and the others
are predicted. A baseline's interval is the range of what each measured mode says, ± 3 %.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recorded.cpu_cores import read_cpu_sweep

from mansard.analytics.models.scaling.network_fit import fit_network
from mansard.analytics.models.scaling.network_predict import predict_modes

Array = NDArray[np.float64]
_MARGIN = 1.03


def judge(data: Path, k: int) -> dict[str, Array]:
    """By model: low, value and high over what was recorded, of all networks left out."""
    sweep = read_cpu_sweep(data)
    found: dict[str, list[Array]] = {"beyond": [], "between": [], "1 / (clock x cores)": []}
    for rows in sweep.observations.partition_by("network", maintain_order=True):
        modes = rows.select("mode").join(sweep.modes, on="mode", maintain_order="left")
        true, speed = rows["latency_s"].to_numpy(), (modes["cpu_hz"] * modes["n_cpus"]).to_numpy()
        for at in combinations(range(rows.height), k):
            to = np.setdiff1d(np.arange(rows.height), at)
            predicted = predict_modes(fit_network(rows[list(at)], modes), modes)[to.tolist()]
            ends = np.stack([predicted[f"latency{end}_s"] for end in ("_low", "", "_high")])
            is_inside = (predicted["interval"] == "spread").to_numpy()
            found["between"].append((ends / true[to])[:, is_inside])
            found["beyond"].append((ends / true[to])[:, ~is_inside])
            each = true[list(at)][:, None] * speed[list(at)][:, None] / speed[to]
            middle = np.exp(np.log(each).mean(axis=0))
            naive = np.stack([each.min(axis=0) / _MARGIN, middle, each.max(axis=0) * _MARGIN])
            found["1 / (clock x cores)"].append(naive / true[to])
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data
    print("| k | model | error: median | nine of ten | held | high / low, median |")
    print("| --- | --- | --- | --- | --- | --- |")
    for k in (1, 2, 3, 4):
        for name, (low, value, high) in judge(data, k).items():
            if not value.size:
                continue
            sizes = 100 * np.abs(value - 1)
            held = 100 * ((low <= 1) & (high >= 1)).mean()
            print(
                f"| {k} | {name} | {np.median(sizes):.0f} % | {np.quantile(sizes, 0.9):.0f} % | "
                f"{held:.0f} % of {value.size} | {np.median(high / low):.2f} |"
            )


if __name__ == "__main__":
    main()
