"""Problems: the instance of HaX-CoNN's artifact, and drawn ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mansard.core.records.schedule import (
    Accelerator,
    ContentionSurface,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)

# https://github.com/ismetdagli/HaX-CoNN, src/z3_solver_multi_dnn.py: milliseconds on the GPU and
# the DLA of a Xavier AGX; what leaving the GPU and the DLA costs, and memory throughput in GB/s,
# which that file calls dummy data (the first of those of its second network are AlexNet's here).
_GOOGLENET = (
    (0.35, 0.15, 0.20, 0.11, 0.12, 0.13, 0.15, 0.19, 0.12, 0.20),
    (0.75, 0.34, 0.45, 0.37, 0.31, 0.33, 0.31, 0.35, 0.27, 0.36),
    (0.05, 0.07, 0.06, 0.01, 0.05, 0.02, 0.06, 0.03, 0.02),
    (0.08, 0.10, 0.09, 0.07, 0.11, 0.01, 0.09, 0.04, 0.02),
    (30, 35, 41, 53, 61, 52, 49, 66, 66, 41),
    (25, 28, 33, 38, 49, 45, 41, 44, 58, 29),
)
_ALEXNET = (
    (0.15, 0.06, 0.22, 0.08, 0.16, 0.70, 0.32, 0.10),
    (0.41, 0.20, 0.45, 0.22, 0.41, 1.91, 0.68, 0.13),
    (0.03, 0.11, 0.08, 0.03, 0.09, 0.08, 0.07),
    (0.07, 0.14, 0.10, 0.05, 0.16, 0.12, 0.09),
    (50, 68, 71, 49, 53, 62, 55, 48),
    (38, 49, 43, 37, 27, 39, 32, 30),
)

# Of the recorded matrix of a Xavier AGX (../shared/data/scheduling), by ``fit_pccs``.
XAVIER = PccsFit(
    normal_byte_per_s=42.2e9,
    intensive_byte_per_s=88.9e9,
    peak_byte_per_s=127.4e9,
    minor_points=3.088,
    contention_byte_per_s=42.17e9,
    total_byte_per_s=57.59e9,
    points_per_byte_per_s=0.5999e-9,
    error_points=1.23,
    left_out_points=3.04,
)
# Own demands in GB/s that the matrix has.
DEMANDS = (9.3, 93.1)


def haxconn(contention: PccsFit | ContentionSurface | None) -> Problem:
    """GoogleNet and AlexNet on a GPU and a DLA, one change each."""
    return _problem(
        [_recorded("googlenet", _GOOGLENET), _recorded("alexnet", _ALEXNET)], 1, contention
    )


def drawn(
    generator: np.random.Generator,
    contention: PccsFit | ContentionSurface | None,
    n_groups: Sequence[int],
    max_transitions: int = 1,
    n_dlas: int = 1,
    demands: tuple[float, float] = DEMANDS,
) -> Problem:
    """Networks of these numbers of groups on a GPU and so many DLAs.

    A time on the GPU is log-uniform from 0.05 to 1 ms; on each DLA it is 1.2 to 3 times as long.
    Memory demand on the GPU is uniform in ``demands`` (GB/s); a DLA moves the same bytes in its
    longer time. Leaving an accelerator costs 0.01 to 0.15 ms, as in the artifact's data.
    """
    networks = []
    for number, count in enumerate(n_groups):
        groups = []
        for g in range(count):
            alone = 1e-3 * float(np.exp(generator.uniform(np.log(0.05), 0.0)))
            longer = [1.0, *generator.uniform(1.2, 3.0, n_dlas)]
            demand = 1e9 * float(generator.uniform(*demands))
            names = _names(n_dlas)
            groups.append(
                LayerGroup(
                    name=str(g),
                    time_s={n: alone * x for n, x in zip(names, longer, strict=True)},
                    demand_byte_per_s={n: demand / x for n, x in zip(names, longer, strict=True)},
                    leave_s={n: 1e-3 * float(generator.uniform(0.01, 0.15)) for n in names},
                    enter_s=dict.fromkeys(names, 0.0),
                    source="modelled",
                )
            )
        networks.append(NetworkChain(name=f"network {number}", groups=tuple(groups)))
    return _problem(networks, max_transitions, contention, n_dlas)


def _names(n_dlas: int) -> list[str]:
    return ["gpu", *(f"dla{number}" for number in range(n_dlas))]


def _recorded(name: str, columns: Sequence[Sequence[float]]) -> NetworkChain:
    gpu, dla, gpu_leave, dla_leave, gpu_demand, dla_demand = columns
    return NetworkChain(
        name=name,
        groups=tuple(
            LayerGroup(
                name=str(g),
                time_s={"gpu": gpu[g] / 1e3, "dla0": dla[g] / 1e3},
                demand_byte_per_s={"gpu": gpu_demand[g] * 1e9, "dla0": dla_demand[g] * 1e9},
                leave_s={"gpu": gpu_leave[g] / 1e3, "dla0": dla_leave[g] / 1e3}
                if g + 1 < len(gpu)
                else {},
                enter_s={"gpu": 0.0, "dla0": 0.0},
                source="published",
            )
            for g in range(len(gpu))
        ),
    )


def _problem(
    networks: Sequence[NetworkChain],
    max_transitions: int,
    contention: PccsFit | ContentionSurface | None,
    n_dlas: int = 1,
) -> Problem:
    names = _names(n_dlas)
    by_name = dict.fromkeys(names, contention)
    return Problem(
        accelerators=tuple(
            Accelerator(name=name, kind="gpu" if name == "gpu" else "dla") for name in names
        ),
        networks=tuple(networks),
        max_transitions=max_transitions,
        pccs={n: c for n, c in by_name.items() if isinstance(c, PccsFit)},
        surfaces={n: c for n, c in by_name.items() if isinstance(c, ContentionSurface)},
        unknown={"idle_w": "not recorded"},
    )
