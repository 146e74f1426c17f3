"""Problems made of what was measured: groups, accelerators, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.schedule_problems import problem_of_runs
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.models.predict.group_times import group_times
from mansard.core.errors import UsageError
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem
from tests.analytics.factory import write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores
from tests.analytics.test_contention import found as measured_contention
from tests.analytics.test_contention import points
from tests.analytics.test_group_times import on_both
from tests.cli.decide_runs import answer, document

WANTED = Problem(accelerators=(), networks=(), idle_w=None, unknown={"idle_w": "no meter was read"})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One network of two groups, on a GPU and on a DLA."""
    layers = [layer(n, 10**9, n_bytes) for n, n_bytes in enumerate((6_000_000, 4_000_000, 10**6))]
    write_scores(tmp_path, [score("net", layers, precision="fp16")])
    write_networks(tmp_path, on_both())
    return tmp_path


def made(runs: Path, wanted: Problem = WANTED, mode: str | None = None) -> Problem:
    dataset = open_runs([runs])
    return problem_of_runs(wanted, group_times(dataset), (), dataset, mode)


def test_groups_on_both_accelerators(runs: Path) -> None:
    problem = made(runs)
    assert problem.accelerators == (
        Accelerator(name="dla0", kind="dla", max_segments=16),
        Accelerator(name="gpu", kind="gpu"),
    )
    (network,) = problem.networks
    assert (network.name, network.precision) == ("net", "fp16")
    first, second = network.groups
    assert (first.name, first.nodes, second.name) == ("0-1", (0, 1), "2")
    # Of 3.1 ms of the whole network two thirds: alone the groups took 2 and 1 ms.
    assert first.time_s == {"dla0": 0.003, "gpu": 0.00206667}
    # Marked less the two whole networks beside it: 3.3 − 3.1 ms, and 10 − 8 ms.
    assert first.leave_s == pytest.approx({"dla0": 0.002, "gpu": 0.0002})
    assert first.enter_s == {"dla0": 0.0, "gpu": 0.0}
    assert first.demand_byte_per_s["gpu"] == 4.83871e9  # 10 MB in 2.067 ms
    assert {group.source for group in network.groups} == {"measured"}
    text = "\n".join(problem.notes)
    assert "demands are modelled, fused traffic over the time: 2 of net on " in text
    scaled = "times are scaled to whole networks, of which groups alone took: 97 % of net on gpu"
    assert scaled in text
    assert "contention of gpu is unknown, and not counted: mansard multi contention" in text
    assert "contention of dla0 is unknown, and not counted: no demand of a DLA can be set" in text


def test_why_an_accelerator_has_no_surface(tmp_path: Path) -> None:
    one = LayerGroup(name="1", time_s={"cpu": 1.0, "cpu:0": 1.0, "dla0": 1.0})
    given = replace(
        WANTED,
        accelerators=(
            Accelerator(name="cpu", kind="cpu"),
            Accelerator(name="cpu:0", kind="cpu", cpus=(0,)),
            Accelerator(name="dla0", kind="dla"),
        ),
        networks=(NetworkChain(name="net", groups=(one,)),),
    )

    def notes(contention: Sequence[VictimContention]) -> list[str]:
        made = problem_of_runs(given, (), contention, open_runs([tmp_path]))
        return [note.partition("not counted: ")[2] or note for note in made.notes]

    of_dla = "no demand of a DLA can be set"
    first, second = measured_contention(tmp_path, points())
    assert notes((first, second)) == [
        "that of cpu:0 and cpu:1 was measured; mansard measure --cpus 0 takes the same",
        "contention of cpu:0 was measured beside cpu:1 alone",
        of_dla,
    ]
    beside_dla = replace(first, aggressor="dla0")  # which is of the problem, as cpu:1 is not
    measured = "contention of cpu:0 was measured beside dla0 alone"
    assert notes((first, beside_dla, second))[1] == measured
    few = {**first.unknown, "surface": "too few undisturbed points"}
    disturbed = replace(first, surface=None, unknown=few)
    again = "too few undisturbed points; mansard multi contention measures them again"
    assert notes((disturbed,))[1:] == [again, of_dla]
    assert notes(()) == ["mansard multi contention", "mansard multi contention", of_dla]


def test_what_the_file_has_stays(runs: Path) -> None:
    chain = NetworkChain(name="detector", model="net.onnx", groups=(), rate_per_s=30, weight=2)
    found = made(runs, replace(WANTED, networks=(chain,), goal="min_rate"))
    (network,) = found.networks
    assert (network.name, network.rate_per_s, network.weight) == ("detector", 30, 2)
    assert len(network.groups) == 2
    assert found.goal == "min_rate"


@pytest.mark.parametrize(
    ("chain", "mode", "line"),
    [
        (NetworkChain(name="other", groups=()), None, "no group of other was measured"),
        (NetworkChain(name="net", groups=()), "30W", "no group of net was measured in 30W"),
        (NetworkChain(name="net", groups=(), batch=8), None, "there is fp16 at batch 1"),
    ],
)
def test_what_was_not_measured_is_named(
    runs: Path, chain: NetworkChain, mode: str | None, line: str
) -> None:
    with pytest.raises(UsageError, match=line):
        made(runs, replace(WANTED, networks=(chain,)), mode)


def test_without_a_file_the_batch_is_the_one_that_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_networks(tmp_path, [replace(row, batch=16) for row in on_both()])
    for names in ((), ("net",)):
        found = document(capsys, "schedule", *names, "--runs", tmp_path)
        assert found["problem"]["networks"][0]["batch"] == 16
        # 16 items in 3.1 ms on the GPU.
        assert found["best"]["networks"][0]["rate_per_s"] == pytest.approx(16 / 3.1e-3)


def test_the_command_schedules_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.toml"
    given = ("--runs", runs, "--save-problem", saved)
    found = document(capsys, "schedule", *given)
    # One network: the GPU's 3.1 ms are better than any other way.
    assert found["best"]["value"] == pytest.approx(3.1e-3)
    assert document(capsys, "schedule", saved)["best"]["groups"] == found["best"]["groups"]
    code, _, err = answer(capsys, "schedule", "other", "--runs", runs)
    assert code == 2
    assert " other --each-layer stages --groups 8 --transitions" in err


def test_modelled_times_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = write_two_modes(tmp_path / "runs")
    given = ("squeezenet1_1", "shufflenet_v2_x0_5", "--runs", runs, "--mode", "2c")
    code, _, err = answer(capsys, "schedule", *given)
    assert code == 2
    assert "no group of squeezenet1_1 was measured" in err
    found = document(capsys, "schedule", *given, "--predict-missing")
    groups = [group for network in found["problem"]["networks"] for group in network["groups"]]
    assert [group["source"] for group in groups] == ["modelled", "modelled"]
    assert [group["enter_s"]["cpu"] for group in groups] == [0.0, 0.0]
    assert found["best"]["value"] == pytest.approx(sum(group["time_s"]["cpu"] for group in groups))
    assert any("squeezenet1_1 on cpu: times are modelled" in line for line in found["notes"])
    code, _, err = answer(capsys, "schedule", *given[:-2], "--predict-missing")
    assert code == 2
    assert "the runs are of several modes: 1c and 2c" in err


def test_a_network_of_which_some_groups_are_missing_is_left_out(tmp_path: Path) -> None:
    """A sweep that was killed: the groups that it measured are not the network."""
    layers = [layer(n, 10**9, 10**6) for n in range(3)]
    write_scores(tmp_path, [score("net", layers, precision="fp16")])
    write_networks(tmp_path, [row for row in on_both() if "dla_core" in row.options][:1])
    chain = NetworkChain(name="net", groups=())
    with pytest.raises(UsageError, match="only 1 of 2 groups of net were measured on dla0"):
        made(tmp_path, replace(WANTED, networks=(chain,)))
    gpu = [replace(row, run_id="q" * 16) for row in on_both() if "dla_core" not in row.options]
    write_networks(tmp_path, gpu)
    found = made(tmp_path)
    assert [each.name for each in found.accelerators] == ["gpu"]
    assert "only 1 of 2 groups of net were measured on dla0: left out" in found.notes


def test_a_group_that_was_disturbed_everywhere_is_refused_with_its_reason(tmp_path: Path) -> None:
    layers = [layer(n, 10**9, 10**6) for n in range(3)]
    write_scores(tmp_path, [score("net", layers, precision="fp16")])
    gpu = [row for row in on_both() if "dla_core" not in row.options]
    gpu[1] = replace(gpu[1], disturbances=("the GPU was throttled",))
    write_networks(tmp_path, gpu)
    with pytest.raises(UsageError, match="group 1 of net has no time on gpu: the GPU was thrott"):
        made(tmp_path)
