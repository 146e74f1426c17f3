"""The rule of the total, on hand-made readings and on lines recorded on real boards."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.hardware import MODULES, Module
from mansard.device.tegrastats import parse_line
from mansard.device.totals import Total, find_total, total_power

NANO = Total(("POM_5V_IN",), "POM_5V_IN", "module", ("POM_5V_GPU", "POM_5V_CPU"))


def total_of(powers_w: dict[str, float]) -> float | None:
    total = find_total(tuple(powers_w), None)
    assert isinstance(total, Total)
    return total_power(powers_w, total).power_w


def test_a_rail_that_holds_others_is_never_added_to_them() -> None:
    # Two public data sets add VDD_IN to its parts and get 13.1 W of 8 W.
    assert total_of({"VDD_IN": 8.0, "VDD_CPU_GPU_CV": 2.6, "VDD_SOC": 2.5}) == 8.0
    assert total_of({"VIN": 20.0, "VDD_GPU": 2.0, "VDD_CPU_SOC_MSS": 6.0, "VIN_SYS_5V0": 5.6}) == 20


def test_a_board_known_by_labels_alone_says_so() -> None:
    total = find_total(("VDD_IN", "VDD_GPU", "VDD_CPU"), None)
    assert isinstance(total, Total)
    assert (total.rails, total.parts) == (("VDD_IN",), ())
    assert total.rule == "VDD_IN by label alone: the module is unknown"


def test_agx_orins_memory_is_inside_its_5_volt_rail() -> None:
    # 4 + 2 + 4; the 1 W of VDDQ_VDD2_1V8AO comes out of VIN_SYS_5V0
    rails = {"VDD_GPU_SOC": 4.0, "VDD_CPU_CV": 2.0, "VIN_SYS_5V0": 4.0, "VDDQ_VDD2_1V8AO": 1.0}
    assert total_of(rails) == 10.0


def test_agx_xavier_adds_all_six() -> None:
    rails = {"GPU": 0.12, "CPU": 0.468, "SOC": 0.937, "CV": 0.0, "VDDRQ": 0.312, "SYS5V": 1.458}
    # 0.12 + 0.468 + 0.937 + 0 + 0.312 + 1.458
    assert total_of(rails) == pytest.approx(3.295)


def test_parts_may_exceed_the_total_by_the_steps_and_no_more() -> None:
    steps_w = {"POM_5V_IN": 0.04, "POM_5V_GPU": 0.04, "POM_5V_CPU": 0.04}
    close = {"POM_5V_IN": 1.0, "POM_5V_GPU": 0.6, "POM_5V_CPU": 0.5}
    # 1.1 W is within 1.0 W + 3 x 0.04 W; 1.13 W is not.
    assert total_power(close, NANO, steps_w).power_w == 1.0
    beyond = total_power({**close, "POM_5V_CPU": 0.53}, NANO, steps_w)
    assert beyond.power_w is None
    assert beyond.reason.startswith("labels seem swapped: POM_5V_IN is 1.000 W")


def test_a_total_without_its_rail_says_which() -> None:
    assert total_power({"POM_5V_GPU": 1.0}, NANO).reason == "POM_5V_IN: not read"
    why = total_power({"POM_5V_IN": None}, NANO, why={"POM_5V_IN": "not measurable"})
    assert why.reason == "POM_5V_IN: not measurable"


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_every_module_finds_its_own_rule(module: Module) -> None:
    found = find_total(module.rails, module)
    assert isinstance(found, Total)
    assert found.rails == module.total_rails
    assert not set(found.rails) & set(found.parts)
    # The rails alone tell the rule as well.
    assert find_total(module.rails, None) == found


@pytest.mark.shared_data
def test_recorded_lines_hold_their_parts(shared_data: Path) -> None:
    n_checked = 0
    for row in (shared_data / "tegrastats/fixture_lines.tsv").read_text().splitlines()[1:]:
        device, *_, line = row.split("\t")
        powers_w = {rail.name: rail.power_w for rail in parse_line(line).rails}
        if not powers_w:
            continue
        total = find_total(tuple(powers_w), None)
        assert isinstance(total, Total), (device, total)
        found = total_power(powers_w, total)
        assert (found.power_w is None) == ("swapped" in device), (device, found)
        n_checked += 1
    assert n_checked >= 20
