"""How well the costs of a FLOP, a byte and a second can be fitted: a Monte Carlo experiment.

    python benchmarks/energy_fit.py [SEEDS]

Energies of a board whose costs are known get normal noise of 1 % and 3 %; every method fits the
same noisy points. Printed are the 95th percentiles of the relative errors of ε_flop, ε_byte and
π₀ over the seeds, "unknown" where the method gives no value (Mansard says so instead of a bad
one). Times are the roofline's: AGX Orin's recorded peak and bandwidth; the costs are round,
made-up numbers of its order. Two ways to take the points: windows of equal length, as the
protocol has them, and windows that each move as many bytes, so that energies differ 36-fold.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from mansard.analytics.energy_fit import EnergyPoint, fit_energy
from mansard.analytics.least_squares import Array, solve_non_negative

PEAK, BANDWIDTH = 5.3e12, 189e9  # FLOP/s and byte/s of AGX Orin at MAXN, as recorded
TRUTH = (3e-12, 60e-12, 15.0)  # J/FLOP, J/byte, W
CHAINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # the plan's FMA per element of 8 bytes
COMPUTE_BOUND = tuple(n for n in CHAINS if 2 * n / 8 > PEAK / BANDWIDTH)
WINDOW_S = 10.0  # five windows of two seconds
N_IDLE = 3

Method = Callable[[Sequence[EnergyPoint]], tuple[float, float, float]]


def make_points(chains: Sequence[int], n_idle: int, *, is_timed: bool) -> list[EnergyPoint]:
    """Exact points, one for each chain length, of equal time or traffic; and the idle ones."""
    points = []
    for intensity in (2 * n / 8 for n in chains):
        rate = min(PEAK, intensity * BANDWIDTH)
        window_s = WINDOW_S if is_timed else WINDOW_S * BANDWIDTH * intensity / rate
        points.append(_point(rate * window_s, rate * window_s / intensity, window_s))
    return points + [_point(0.0, 0.0, WINDOW_S)] * n_idle


def _point(work: float, traffic: float, window_s: float) -> EnergyPoint:
    flop_j, byte_j, constant_w = TRUTH
    return EnergyPoint(
        name="made up",
        work_flop={"fp32": work} if work else {},
        traffic_bytes={"DRAM": traffic} if traffic else {},
        window_s=window_s,
        energy_j=flop_j * work + byte_j * traffic + constant_w * window_s,
    )


def _equations(points: Sequence[EnergyPoint]) -> tuple[Array, Array]:
    rows = [
        [p.work_flop.get("fp32", 0.0), p.traffic_bytes.get("DRAM", 0.0), p.window_s] for p in points
    ]
    return np.array(rows), np.array([p.energy_j for p in points])


def plain_least_squares(points: Sequence[EnergyPoint]) -> tuple[float, float, float]:
    """Every joule counts alike, and costs may come out negative."""
    rows, energies_j = _equations(points)
    scale = np.linalg.norm(rows, axis=0)
    found = np.linalg.lstsq(rows / scale, energies_j, rcond=None)[0] / scale
    return float(found[0]), float(found[1]), float(found[2])


def non_negative(points: Sequence[EnergyPoint]) -> tuple[float, float, float]:
    """Non-negative, and still every joule alike."""
    found = solve_non_negative(*_equations(points)).values
    return float(found[0]), float(found[1]), float(found[2])


def relative(points: Sequence[EnergyPoint]) -> tuple[float, float, float]:
    """Mansard's: non-negative, on relative errors; a cost that it does not give is infinite."""
    found = fit_energy(points)
    terms = (found.flop_j["fp32"], found.byte_j["DRAM"], found.constant_w)
    flop, byte, constant = (term.value or math.inf for term in terms)
    return flop, byte, constant


METHODS: tuple[tuple[str, Method, Sequence[int], int], ...] = (
    ("plain least squares on E", plain_least_squares, CHAINS, 0),
    ("non-negative least squares on E", non_negative, CHAINS, 0),
    ("relative-weighted, non-negative", relative, CHAINS, 0),
    (f"the same + {N_IDLE} idle points", relative, CHAINS, N_IDLE),
    ("  compute-bound points only", relative, COMPUTE_BOUND, 0),
    (f"  compute-bound points + {N_IDLE} idle", relative, COMPUTE_BOUND, N_IDLE),
)


def percentiles(
    method: Method, points: Sequence[EnergyPoint], noise: float, n_seeds: int
) -> list[float]:
    """95th percentile of the relative error of each cost over the seeds."""
    errors = []
    for seed in range(n_seeds):
        factors = np.random.default_rng(seed).normal(1.0, noise, len(points))
        noisy = [
            msgspec.structs.replace(point, energy_j=point.energy_j * float(factor))
            for point, factor in zip(points, factors, strict=True)
        ]
        errors.append([abs(a / b - 1) for a, b in zip(method(noisy), TRUTH, strict=True)])
    return [float(q) for q in np.quantile(errors, 0.95, axis=0, method="higher")]


def _table(n_seeds: int, *, is_timed: bool) -> None:
    print(f"{'method':36} {'1 % noise':>27} {'3 % noise':>27}")
    for name, method, chains, n_idle in METHODS:
        points = make_points(chains, n_idle, is_timed=is_timed)
        cells = [_cell(percentiles(method, points, noise, n_seeds)) for noise in (0.01, 0.03)]
        print(f"{name:36} {cells[0]:>27} {cells[1]:>27}")


def _cell(errors: Sequence[float]) -> str:
    return " / ".join(
        f"{100 * error:.1f} %" if math.isfinite(error) else "unknown" for error in errors
    )


def main() -> None:
    """Print the tables."""
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"95th percentile of the error of ε_flop / ε_byte / π₀ over {n_seeds} seeds")
    print("\nwindows of equal length")
    _table(n_seeds, is_timed=True)
    print("\nwindows of equal traffic")
    _table(n_seeds, is_timed=False)


if __name__ == "__main__":
    main()
