"""Whatever is set, in whatever order, and whoever meddles: the machine is as it was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.records import CpuCluster, PowerMode
from mansard.device.clocks.readback import read_mode
from mansard.device.clocks.settings import find_clocks, find_settings
from mansard.device.holding.acting import MachineStep
from mansard.device.holding.hold import hold_machine
from mansard.simulator import snapshot
from tests.device.clock_trees import CPU, ORIN_GPU, ORIN_KHZ, make_orin, write

EMC_HZ = (204e6, 665.6e6, 2133e6, 3199e6)

clusters = st.lists(
    st.tuples(st.sampled_from([(0, 1, 2, 3), (4, 5, 6, 7)]), st.sampled_from(ORIN_KHZ)),
    min_size=1, max_size=2, unique_by=lambda one: one[0],
).map(
    lambda drawn: tuple(CpuCluster(cpus=cpus, max_hz=khz * 1e3) for cpus, khz in sorted(drawn))
)  # fmt: skip
modes: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    clusters=clusters,
    gpu_hz=st.sampled_from(ORIN_GPU).map(float),
    memory_hz=st.sampled_from(EMC_HZ),
    dla_hz=st.sampled_from([614.4e6, 1600e6]),
)


def own_mode(present: PowerMode, figures: dict[str, object]) -> PowerMode:
    on = figures["clusters"]
    assert isinstance(on, tuple)
    return msgspec.structs.replace(
        present,
        name="own",
        kind="clocks",
        n_cpus=sum(len(one.cpus) for one in on),
        cpu_hz=max(one.max_hz for one in on),
        **figures,
    )


def make_found(root: Path, data: st.DataObject) -> None:
    """An Orin as somebody may have left it: cores off, limits anywhere, the memory locked."""
    make_orin(root)
    for policy in (0, 4):
        low, high = sorted(data.draw(st.tuples(*[st.sampled_from(ORIN_KHZ)] * 2)))
        write(root, f"{CPU}/cpufreq/policy{policy}/scaling_min_freq", low)
        write(root, f"{CPU}/cpufreq/policy{policy}/scaling_max_freq", high)
    for cpu in data.draw(st.sets(st.integers(1, 7), max_size=7)):
        write(root, f"{CPU}/cpu{cpu}/online", 0)
    emc = "sys/kernel/debug/bpmp/debug/clk/emc"
    write(root, f"{emc}/mrq_rate_locked", data.draw(st.sampled_from([0, 1])))
    write(root, f"{emc}/rate", int(data.draw(st.sampled_from(EMC_HZ))))
    write(root, "sys/kernel/nvpmodel_clk_cap/emc", int(data.draw(st.sampled_from(EMC_HZ))))


@settings(max_examples=25)
@given(data=st.data())
def test_any_modes_one_after_another(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("orin")
    make_found(root, data)
    present, before = read_mode(root), snapshot(root)
    with hold_machine(root, settle_s=0) as hold:
        for figures in data.draw(st.lists(modes, min_size=1, max_size=3)):
            wanted = own_mode(present, figures)
            found = hold.set(wanted)
            assert found.clusters == wanted.clusters
            assert (found.gpu_hz, found.memory_hz) == (wanted.gpu_hz, wanted.memory_hz)
            assert (found.n_cpus, found.dla_hz) == (wanted.n_cpus, wanted.dla_hz)
    assert snapshot(root) == before


@settings(max_examples=25)
@given(data=st.data())
def test_whoever_meddles_meanwhile(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("orin")
    make_found(root, data)
    before = snapshot(root)
    paths = find_settings(root, find_clocks(root))
    with hold_machine(root, settle_s=0):
        for path in data.draw(st.sets(st.sampled_from(paths))):
            write(root, path[1:], data.draw(st.sampled_from(["0", "1", "junk", "", "408000000"])))
    assert snapshot(root) == before


@settings(max_examples=25)
@given(figures=modes, data=st.data())
def test_no_step_leaves_a_minimum_above_its_maximum(
    tmp_path_factory: pytest.TempPathFactory, figures: dict[str, object], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("orin")
    make_found(root, data)
    folders = [f"{CPU}/cpufreq/policy0/scaling_", f"{CPU}/cpufreq/policy4/scaling_",
               "sys/class/devfreq/17000000.gpu/"]  # fmt: skip

    def look(step: MachineStep) -> None:
        for folder in folders:
            low, high = (int((root / f"{folder}{end}_freq").read_text()) for end in ("min", "max"))
            assert low <= high, step

    with hold_machine(root, on_step=look, settle_s=0) as hold:
        hold.set(own_mode(read_mode(root), figures))
