"""What others' solvers find, where they are installed: the artifact's model, CP-SAT, HiGHS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from schedules.artifact import orin_table
from schedules.instances import ARTIFACT, XAVIER, drawn, haxconn

from mansard.api.deciding.problem_files import write_problem
from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem
from mansard.scheduler import solve
from reproductions.solvers.__main__ import SOLVERS as SOLVERS_BY_NAME
from reproductions.solvers.__main__ import main
from reproductions.solvers.blind import score
from reproductions.solvers.cp_sat import solve_by_cp_sat
from reproductions.solvers.haxconn import solve_by_z3
from reproductions.solvers.highs import solve_by_highs

SOLVERS = pytest.mark.parametrize(
    ("module", "solver"), [("ortools", solve_by_cp_sat), ("highspy", solve_by_highs)]
)


def hard(number: int) -> Problem:
    """Small, without contention: three accelerators, groups that not all take, unknown costs."""
    generator = np.random.default_rng(number)
    asked = drawn(generator, None, (3, 3, 2), max_transitions=2, n_dlas=2)
    networks = []
    for network in asked.networks:
        groups = []
        for group in network.groups:
            changes: dict[str, Any] = {
                "enter_s": {n: generator.uniform(0, 1e-4) for n in group.time_s}
            }
            if generator.random() < 0.3:
                changes["time_s"] = {n: t for n, t in group.time_s.items() if n != "dla1"}
            if generator.random() < 0.3:
                changes["leave_s"] = {n: t for n, t in group.leave_s.items() if n != "gpu"}
            groups.append(msgspec.structs.replace(group, **changes))
        networks.append(msgspec.structs.replace(network, groups=tuple(groups)))
    return msgspec.structs.replace(asked, networks=tuple(networks))


@SOLVERS
def test_without_contention_solvers_and_ours_agree(
    module: str, solver: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(module)
    for number in range(3):
        asked = hard(number)
        ours, answer = solve(asked), solver(asked)
        assert ours.is_optimal
        assert answer.is_proved
        assert answer.makespan_s == pytest.approx(ours.makespan_s, rel=1e-5)
        assert score(asked, answer, "peer").makespan_s == pytest.approx(ours.makespan_s, rel=1e-5)
    assert capfd.readouterr().out == ""  # a command prints JSON there


@SOLVERS
def test_a_goal_that_they_do_not_know_is_refused(module: str, solver: Callable[..., Any]) -> None:
    pytest.importorskip(module)
    with pytest.raises(InputError, match="makespan of one round alone"):
        solver(msgspec.structs.replace(haxconn(None), goal="throughput"))


def test_the_artifact_s_model_finds_the_schedule_that_the_artifact_recorded() -> None:
    """Its temp.txt: GoogleNet starts on the GPU and changes at layer 52, group 4; AlexNet starts
    on the DLA and changes after its first group.
    """
    pytest.importorskip("z3")
    asked = haxconn(XAVIER)
    answer = solve_by_z3(asked)
    assert answer is not None
    assert answer.assignment == ARTIFACT
    ours, theirs = solve(asked), score(asked, answer, "z3")
    assert ours.is_optimal
    assert theirs.makespan_s > 1.1 * ours.makespan_s
    assert theirs.solve_s == answer.solve_s


def test_the_artifact_s_model_takes_two_networks_on_two_accelerators() -> None:
    pytest.importorskip("z3")
    with pytest.raises(InputError, match="two networks on a GPU and one accelerator more"):
        solve_by_z3(drawn(np.random.default_rng(0), None, (2, 2), n_dlas=2))


def test_the_orin_comparison_turns_around_by_one_metric() -> None:
    text = "\n".join(orin_table())
    assert "Herald with 1.994 ms, HaX-CoNN has 1.929 ms: +3.4 %" in text
    assert "ResNet101 on DLA with 1.587 ms, HaX-CoNN has 1.929 ms: -17.7 %" in text


def test_the_script_prints_what_they_find_beside_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_problem(tmp_path / "problem.toml", haxconn(None))
    assert main([str(tmp_path / "problem.toml")]) == 0
    out, err = capsys.readouterr()
    assert "gpu only" in out
    assert all((name in out) != (name in err) for name in SOLVERS_BY_NAME)  # or why there is none
