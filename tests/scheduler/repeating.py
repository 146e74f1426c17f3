"""Networks that repeat, first come first served, in plain Python: shares no code with ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mansard.core.records.schedule import Problem
from tests.scheduler.brute_force import slowed

_WAITING, _AWAY, _ENTERING, _WORKING, _LEAVING = range(5)


@dataclass
class _Network:
    arrived: float = 0.0
    group: int = 0
    phase: int = _WAITING
    left: float = 0.0
    since: float = 0.0


def rates_and_latencies(  # noqa: C901 - one simulation
    problem: Problem, assignment: Sequence[Sequence[str]], n_runs: int
) -> list[tuple[float, float]]:
    """Runs a second and mean latency of each network, in the later half of a long simulation."""
    speed, networks = slowed(problem), problem.networks
    parts = [
        [
            (
                group.enter_s[name] if at and row[at - 1] != name else 0.0,
                group.time_s[name],
                group.leave_s[name] if at + 1 < len(row) and row[at + 1] != name else 0.0,
            )
            for at, (group, name) in enumerate(zip(network.groups, row, strict=True))
        ]
        for network, row in zip(networks, assignment, strict=True)
    ]
    now, busy, each = 0.0, {}, [_Network() for _ in networks]
    ended: list[list[tuple[float, float]]] = [[] for _ in networks]

    def asks(n: int) -> float:
        name = assignment[n][each[n].group]
        return networks[n].groups[each[n].group].demand_byte_per_s.get(name, 0.0)

    while min(map(len, ended)) < n_runs:
        for accelerator in problem.accelerators:
            name = accelerator.name
            waiting = [
                n
                for n, one in enumerate(each)
                if one.phase == _WAITING and assignment[n][one.group] == name
            ]
            if name not in busy and waiting:
                n = busy[name] = min(waiting, key=lambda n: (each[n].since, n))
                each[n].phase, each[n].left = _ENTERING, parts[n][each[n].group][0]
        speeds = [1.0] * len(each)
        working = [n for n, one in enumerate(each) if one.phase == _WORKING]
        for n in working:
            external = sum(asks(m) for m in working if m != n)
            speeds[n] = speed(assignment[n][each[n].group], asks(n), external)
        moving = [n for n, one in enumerate(each) if one.phase != _WAITING]
        step = min((each[n].left / speeds[n] for n in moving), default=math.inf)
        now += step
        for n in moving:
            one = each[n]
            if one.left / speeds[n] > step + 1e-12 * now:
                one.left -= step * speeds[n]
            elif one.phase in {_ENTERING, _WORKING}:
                one.phase += 1
                one.left = parts[n][one.group][one.phase - _ENTERING]
            elif one.phase == _AWAY:
                one.phase, one.since = _WAITING, now
            else:
                del busy[assignment[n][one.group]]
                one.phase, one.since, one.group = _WAITING, now, one.group + 1
                if one.group == len(parts[n]):
                    ended[n].append((now, now - one.arrived))
                    rate = networks[n].rate_per_s
                    one.arrived = one.arrived + networks[n].batch / rate if rate else now
                    one.group = 0
                    if one.arrived > now:
                        one.phase, one.left = _AWAY, one.arrived - now
    found = []
    for runs in ended:
        late = [run for run in runs if run[0] > now / 2]
        rate = (len(late) - 1) / (late[-1][0] - late[0][0])
        found.append((rate, sum(latency for _, latency in late) / len(late)))
    return found
