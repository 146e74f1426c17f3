"""The best schedule of a problem as a function: what it gives where the search has no time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api.deciding.problem_files import write_problem
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem


def test_no_baseline_is_better_than_what_a_search_without_time_gives(tmp_path: Path) -> None:
    free = dict.fromkeys(("gpu", "dla"), 0.0)
    group = LayerGroup(name="", time_s={"gpu": 10e-3, "dla": 11e-3}, leave_s=free, enter_s=free)
    networks = tuple(
        NetworkChain(
            name=name, groups=tuple(msgspec.structs.replace(group, name=str(n)) for n in range(20))
        )
        for name in "abcd"
    )
    both = (Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla", kind="dla"))
    path = tmp_path / "problem.json"
    problem = Problem(accelerators=both, networks=networks, max_transitions=3, idle_w=1.0)
    write_problem(path, problem)
    found = api.schedule(api.ScheduleRequest(problem=path, time_limit_s=1e-6))
    # The search begins with all on the GPU, in 4 · 20 · 10 ms; naive: two networks on each.
    assert found.baselines[0].value == pytest.approx(0.8)
    assert found.best.method.removesuffix(", cut off") in {
        *("local, naive", "local, herald", "local, h2h")
    }
    assert found.best.value == min(each.value for each in found.baselines if each.value)
    assert found.gain == 0
    # At best 80 groups are shared out so that both end together: 80 / (1/10 + 1/11) ms.
    assert found.best.bound == pytest.approx(0.8 * 11 / 21, rel=1e-3)
    assert not found.best.is_optimal
    # A network has 2 · (1 + 19 + 171 + 969) assignments.
    assert found.best.n_assignments == 2320**4
    assert "as good as the best baseline" in found.sentence
    limited = api.ScheduleRequest(problem=path, time_limit_s=1e-6, max_latency_s=1e-3)
    nearest = api.schedule(limited)
    assert nearest.best.broken
    assert (nearest.best.method, nearest.gain) == ("local", None)
