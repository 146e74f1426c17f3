"""Random problems."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from mansard.core.records.schedule import (
    Accelerator,
    ContentionSurface,
    Goal,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)

FIT = PccsFit(  # close to that of an AGX Xavier
    normal_byte_per_s=44.4e9,
    intensive_byte_per_s=87.5e9,
    peak_byte_per_s=127.4e9,
    minor_points=3.09,
    contention_byte_per_s=42.2e9,
    total_byte_per_s=57.6e9,
    points_per_byte_per_s=0.6e-9,
    error_points=1.23,
    left_out_points=2.0,
)
PCCS = {"gpu": FIT, "dla0": FIT}


def problem(
    seed: int,
    sizes: tuple[int, ...],
    n_accelerators: int = 2,
    max_transitions: int = 1,
    goal: Goal = "makespan",
) -> Problem:
    """Networks of so many groups, with times of 1 to 10 ms and costs up to 1 ms."""
    draw = random.Random(seed)
    names = ["gpu", "dla0", "dla1"][:n_accelerators]

    def each(least: float, most: float) -> dict[str, float]:
        return {name: draw.uniform(least, most) for name in names}

    networks = tuple(
        NetworkChain(
            name=f"n{n}",
            groups=tuple(
                LayerGroup(
                    name=f"g{g}",
                    time_s=each(1e-3, 1e-2),
                    energy_j=each(0.01, 0.1),
                    demand_byte_per_s=each(1e9, 9e10),
                    leave_s=each(0, 1e-3),
                    enter_s=each(0, 1e-3),
                )
                for g in range(size)
            ),
            weight=draw.uniform(1, 3),
            batch=draw.randint(1, 3),
            max_latency_s=draw.uniform(1.5e-2, 4e-2) if goal == "misses" else 0.0,
        )
        for n, size in enumerate(sizes)
    )
    return Problem(
        accelerators=tuple(
            Accelerator(name=name, kind="gpu" if name == "gpu" else "dla") for name in names
        ),
        networks=networks,
        goal=goal,
        max_transitions=max_transitions,
        idle_w=5.0,
    )


def hard(seed: int) -> Problem:
    """Tiny, with all that makes a search go wrong: times of 0, equal times and ends, accelerators
    that do not take a group, unknown costs and demands, few segments, limits, any contention.
    """
    draw = random.Random(seed)
    n_networks = draw.choice([1, 2, 2, 3, 3, 4])
    sizes = [1] * n_networks
    while sum(sizes) < 6 and draw.random() < 0.9:
        sizes[draw.randrange(n_networks)] += 1
    goals: list[Goal] = ["makespan", "throughput", "min_rate", "weighted_latency"]
    goal = draw.choice([*goals, "energy", "misses"])
    whole = problem(seed, tuple(sizes), draw.choice([1, 2, 2, 3]), draw.choice([0, 1, 1, 2]))
    names = [accelerator.name for accelerator in whole.accelerators]
    is_grid, share = draw.random() < 0.5, draw.choice([0, 0, 0.2])

    def some(values: dict[str, float], keep: float) -> dict[str, float]:
        return {name: value for name, value in values.items() if draw.random() >= keep}

    def on_grid(values: dict[str, float], steps: list[int]) -> dict[str, float]:
        return {name: draw.choice(steps) * 1e-3 for name in values} if is_grid else values

    def changed(group: LayerGroup, is_first: bool) -> LayerGroup:
        times = on_grid(group.time_s, [1, 2, 3] if is_first else [0, 1, 1, 2])
        taken = some(times, share) or {"gpu": times["gpu"]}
        return msgspec.structs.replace(
            group,
            time_s=taken,
            energy_j={name: group.energy_j[name] for name in taken},
            leave_s=some(on_grid(group.leave_s, [0, 0, 1]), share),
            enter_s=some(on_grid(group.enter_s, [0, 0, 1]), share),
            demand_byte_per_s=some(group.demand_byte_per_s, 0.1),
        )

    def surface() -> ContentionSurface:
        own, external = (sorted(draw.uniform(1e9, 9e10) for _ in range(3)) for _ in range(2))
        rows = (tuple(x * draw.uniform(0, 1.1) for _ in external) for x in own)
        return ContentionSurface(
            own_byte_per_s=tuple(own),
            external_byte_per_s=tuple(external),
            achieved_byte_per_s=tuple(rows),
        )

    contention: list[dict[str, Any]] = [
        {},
        {"pccs": dict.fromkeys(names, FIT)},
        {"surfaces": {name: surface() for name in names}},
    ]
    limits = {
        "max_makespan_s": draw.uniform(5e-3, 4e-2),
        "max_energy_j": draw.uniform(0.1, 0.6),
        "max_power_w": draw.uniform(10, 40),
    }
    return msgspec.structs.replace(
        whole,
        networks=tuple(
            msgspec.structs.replace(
                network,
                groups=tuple(changed(group, not at) for at, group in enumerate(network.groups)),
                max_latency_s=draw.uniform(5e-3, 3e-2)
                if goal == "misses" or draw.random() < 0.2
                else 0.0,
            )
            for network in whole.networks
        ),
        accelerators=tuple(
            msgspec.structs.replace(each, max_segments=draw.choice([0, 0, 0, 1, 2]))
            for each in whole.accelerators
        ),
        goal=goal,
        **draw.choice(contention),
        **{name: limit for name, limit in limits.items() if draw.random() < 0.2},
    )
