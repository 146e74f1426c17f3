"""Baselines by hand, and the gain over them."""

from __future__ import annotations

import msgspec
import pytest

from mansard.core.records.schedule import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.scheduler import evaluate, solve
from mansard.scheduler.baselines import baselines, gain

GPU, DLA = Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla0", kind="dla")


def chain(
    name: str, *times: tuple[float | None, float | None], change_s: float = 0.0
) -> NetworkChain:
    """Groups with times on the GPU and on the DLA, in seconds; leaving either costs the same."""
    return NetworkChain(
        name=name,
        groups=tuple(
            LayerGroup(
                name=str(place),
                time_s={on: time for on, time in (("gpu", gpu), ("dla0", dla)) if time is not None},
                leave_s={"gpu": change_s, "dla0": change_s},
                enter_s={"gpu": 0.0, "dla0": 0.0},
            )
            for place, (gpu, dla) in enumerate(times)
        ),
    )


def problem(*networks: NetworkChain, accelerators: tuple[Accelerator, ...] = (GPU, DLA)) -> Problem:
    return Problem(accelerators=accelerators, networks=networks, unknown={"idle_w": "not measured"})


def makespans(asked: Problem) -> dict[str, float]:
    return {schedule.method: schedule.makespan_s for schedule in baselines(asked)}


def test_by_hand() -> None:
    # Herald, groups in turn: a0 to the GPU (1 against 2), b0 to the GPU (2 against 3), a1 to the
    # DLA (3 against 2), b1 to the GPU (3 against 5). a0 and its change take 1.5; then b until
    # 3.5 on the GPU, a1 from 1.5 to 3.5 on the DLA. H2H finds no better neighbour: a whole on the
    # DLA takes 4, as does everything on the GPU.
    free = problem(
        chain("a", (1, 2), (1, 2), change_s=0.5), chain("b", (1, 3), (1, 3), change_s=0.5)
    )
    assert makespans(free) == {"gpu only": 4.0, "naive": 4.0, "herald": 3.5, "h2h": 3.5}


def test_h2h_sees_what_changes_cost_and_herald_does_not() -> None:
    # As above, but a change takes 2: a0 until 3, then b until 5 and a1 until 5. a whole on the
    # DLA: 4, beside b's 2 on the GPU.
    dear = problem(
        chain("a", (1, 2), (1, 2), change_s=2.0), chain("b", (1, 3), (1, 3), change_s=2.0)
    )
    assert makespans(dear) == {"gpu only": 4.0, "naive": 4.0, "herald": 5.0, "h2h": 4.0}


def test_naive_is_the_best_of_whole_networks_on_different_accelerators() -> None:
    # a on the GPU and b on the DLA: 6; the other way 3. Both on the GPU would take 4.
    asked = problem(chain("a", (1, 2), (1, 1)), chain("b", (1, 3), (1, 3)))
    assert makespans(asked)["naive"] == 3.0


def test_without_a_gpu_and_without_a_whole_network_two_are_missing() -> None:
    cpu = Accelerator(name="gpu", kind="cpu")
    asked = problem(chain("a", (1, None), (None, 1)), accelerators=(cpu, DLA))
    assert makespans(asked) == {"herald": 2.0, "h2h": 2.0}


def test_herald_keeps_a_change_for_groups_that_need_it() -> None:
    # One change at most, and the last group runs on the GPU alone. Going to the DLA for the
    # second group (1 against 10) would need another change.
    asked = problem(chain("a", (1, 9), (10, 1), (1, None)))
    assert makespans(asked)["herald"] == 12.0


def test_the_gain_is_over_the_best_that_keeps_all_limits() -> None:
    asked = problem(
        chain("a", (1, 2), (1, 2), change_s=0.5), chain("b", (1, 3), (1, 3), change_s=0.5)
    )
    ours, others = solve(asked), baselines(asked)
    assert gain(others[0], others[1:]) == pytest.approx(3.5 / 4.0 - 1)
    assert gain(ours, others) == pytest.approx(3.5 / ours.makespan_s - 1)
    assert gain(ours, others) >= 0  # type: ignore[operator]
    late = msgspec.structs.replace(others[2], broken=("a: latency",))
    assert gain(others[0], [late, others[1]]) == 0.0
    assert gain(late, others) is None
    rates = msgspec.structs.replace(asked, goal="throughput")
    slow = evaluate(rates, [["gpu", "gpu"], ["gpu", "gpu"]], "slow")
    fast = evaluate(rates, [["dla0", "dla0"], ["gpu", "gpu"]], "fast")
    assert slow.value is not None
    assert fast.value is not None
    assert gain(fast, [slow]) == pytest.approx(fast.value / slow.value - 1)
