"""How well the costs of a FLOP, a byte and a second can be fitted: a Monte Carlo experiment.

    python benchmarks/energy_fit.py [SEEDS]

Energies of a board whose costs are known get normal noise of 1 % and 3 %; every method fits the
same noisy points. Printed are the 95th percentiles of the relative errors of ε_flop, ε_byte and
π₀ over the seeds, "unknown" where the method gives no value (Mansard says so instead of a bad
one). Times are the roofline's: AGX Orin's recorded peak and bandwidth; the costs are round,
made-up numbers of its order. Two ways to take the points: windows of equal length, as the
protocol has them, and windows that each move as many bytes, so that energies differ 36-fold.
At last the plan for a CPU, whose points have seven costs to share; all numbers are made up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from mansard.analytics.models.energy.fit import EnergyPoint, fit_energy
from mansard.analytics.models.energy.least_squares import Array, solve_non_negative

PEAK, BANDWIDTH = 5.3e12, 189e9  # FLOP/s and byte/s of AGX Orin at MAXN, as recorded
TRUTH = (3e-12, 60e-12, 15.0)  # J/FLOP, J/byte, W
CHAINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # the plan's FMA per element of 8 bytes
COMPUTE_BOUND = tuple(n for n in CHAINS if 2 * n / 8 > PEAK / BANDWIDTH)
WINDOW_S = 10.0  # five windows of two seconds
N_IDLE = 3

Method = Callable[[Sequence[EnergyPoint]], tuple[float, ...]]


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
    method: Method,
    points: Sequence[EnergyPoint],
    noise: float,
    n_seeds: int,
    truth: Sequence[float] = TRUTH,
) -> list[float]:
    """95th percentile of the relative error of each cost over the seeds."""
    errors = []
    for seed in range(n_seeds):
        factors = np.random.default_rng(seed).normal(1.0, noise, len(points))
        noisy = [
            msgspec.structs.replace(point, energy_j=point.energy_j * float(factor))
            for point, factor in zip(points, factors, strict=True)
        ]
        errors.append([abs(a / b - 1) for a, b in zip(method(noisy), truth, strict=True)])
    return [float(q) for q in np.quantile(errors, 0.95, axis=0, method="higher")]


CPU_PEAKS = {"fp32": (128e9, 20e-12), "fp64": (64e9, 40e-12)}  # FLOP/s, J/FLOP
CPU_LEVELS = {  # byte/s, J/byte, working sets that the quick plan has there
    "L1": (256e9, 2e-12, 4),
    "L2": (128e9, 10e-12, 4),
    "L3": (64e9, 30e-12, 4),
    "DRAM": (16e9, 150e-12, 2),
}
CPU_CONSTANT_W = 8.0
CPU_STREAMS = (0.0, 0.0, 0.25, 1 / 6)  # FLOP/byte of read, copy, scale and triad in fp32


def make_cpu_points() -> list[EnergyPoint]:
    """The plan's chains in L1, its streams in every level, and the idle points."""
    points = [_cpu_point({}, {})] * N_IDLE
    for name, (peak, _) in CPU_PEAKS.items():
        for intensity in (2 * n / (8 if name == "fp32" else 16) for n in CHAINS):
            rate = min(peak, intensity * CPU_LEVELS["L1"][0])
            points.append(_cpu_point({name: rate}, {"L1": rate / intensity}))
    for level, (bandwidth, _, n_sets) in CPU_LEVELS.items():
        for intensity in CPU_STREAMS * n_sets:
            points.append(_cpu_point({"fp32": intensity * bandwidth}, {level: bandwidth}))
    return points


def _cpu_point(flop_per_s: dict[str, float], bytes_per_s: dict[str, float]) -> EnergyPoint:
    watts = sum(CPU_PEAKS[name][1] * rate for name, rate in flop_per_s.items())
    watts += sum(CPU_LEVELS[name][1] * rate for name, rate in bytes_per_s.items())
    return EnergyPoint(
        name="made up",
        work_flop={name: rate * WINDOW_S for name, rate in flop_per_s.items()},
        traffic_bytes={name: rate * WINDOW_S for name, rate in bytes_per_s.items()},
        window_s=WINDOW_S,
        energy_j=(watts + CPU_CONSTANT_W) * WINDOW_S,
    )


def _cpu_table(n_seeds: int) -> None:
    points = make_cpu_points()
    truth = [cost for _, cost in CPU_PEAKS.values()]
    truth += [CPU_LEVELS[name][1] for name in sorted(CPU_LEVELS)] + [CPU_CONSTANT_W]
    print(f"{'noise':8}" + "".join(f"{n:>9}" for n in (*CPU_PEAKS, *sorted(CPU_LEVELS), "π₀")))
    for noise in (0.01, 0.03):
        errors = percentiles(_seven, points, noise, n_seeds, truth)
        cells = (f"{100 * e:.1f} %" if math.isfinite(e) else "unknown" for e in errors)
        print(f"{100 * noise:.0f} %     " + "".join(f"{cell:>9}" for cell in cells))


def _seven(points: Sequence[EnergyPoint]) -> tuple[float, ...]:
    found = fit_energy(points)
    terms = [*found.flop_j.values(), *found.byte_j.values(), found.constant_w]
    return tuple(term.value or math.inf for term in terms)


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
    print("\nthe plan for a CPU, windows of equal length, with idle points")
    _cpu_table(n_seeds)


if __name__ == "__main__":
    main()
