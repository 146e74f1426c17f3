"""Problems: the instance of HaX-CoNN's artifact, and drawn ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from msgspec.structs import replace

from mansard.api.deciding.problem_files import SHIPPED_PROBLEMS, read_problem
from mansard.core.records.schedule import (
    Accelerator,
    ContentionSurface,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)

# What the artifact's solver prints for its GoogleNet and AlexNet (output/schedule_summary.txt):
# GoogleNet leaves the GPU at layer 52, AlexNet the DLA at layer 2.
ARTIFACT = (("gpu",) * 4 + ("dla0",) * 6, ("dla0",) + ("gpu",) * 7)
# Its order: when its groups begin in the model, milliseconds, as Z3 5.4.1 solves ours of it.
ARTIFACT_STARTS = (
    (0.0, 0.41, 0.78, 1.2004, 1.7424, 2.2142, 2.7060, 3.1586, 3.6775, 4.1091),
    (0.0, 0.35, 0.56, 1.3186, 1.4755, 1.8159, 3.6580, 4.3691),
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
    """The artifact's GoogleNet and AlexNet, with one model of contention for both accelerators."""
    shipped = published()
    names = (accelerator.name for accelerator in shipped.accelerators)
    named = dict.fromkeys(names, contention)
    return replace(
        shipped,
        pccs={name: fit for name, fit in named.items() if isinstance(fit, PccsFit)},
        surfaces={name: fit for name, fit in named.items() if isinstance(fit, ContentionSurface)},
    )


def published() -> Problem:
    """The same as it ships: with PCCS of the solver's constants for each accelerator."""
    return read_problem(SHIPPED_PROBLEMS["haxconn-googlenet-alexnet"])


def example() -> Problem:
    """The problem that docs/use/scheduling.md shows."""
    page = Path(__file__).parents[2] / "docs/use/scheduling.md"
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "problem.toml"
        path.write_text(block, encoding="utf-8")
        return read_problem(path)


def only(problem: Problem, assignment: Sequence[Sequence[str]]) -> Problem:
    """``problem`` in which nothing but ``assignment`` [network][group] can be chosen."""
    networks = [
        replace(
            network,
            groups=tuple(
                replace(group, time_s={name: group.time_s[name]})
                for group, name in zip(network.groups, row, strict=True)
            ),
        )
        for network, row in zip(problem.networks, assignment, strict=True)
    ]
    return replace(problem, networks=tuple(networks))


def charged_on_entry(problem: Problem) -> Problem:
    """``problem`` with the costs of changes on the accelerator that is entered, of two."""
    first, second = (accelerator.name for accelerator in problem.accelerators)
    free = {first: 0.0, second: 0.0}
    networks = []
    for network in problem.networks:
        costs = [{}, *(group.leave_s for group in network.groups[:-1])]
        groups = [
            replace(
                group,
                leave_s=free,
                enter_s={first: cost[second], second: cost[first]} if cost else free,
            )
            for group, cost in zip(network.groups, costs, strict=True)
        ]
        networks.append(replace(network, groups=tuple(groups)))
    return replace(problem, networks=tuple(networks))


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
