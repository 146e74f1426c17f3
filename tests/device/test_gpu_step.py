"""The step between two clocks of a GPU: by a board's table, and by NVML's list for a card."""

from __future__ import annotations

from pathlib import Path

from mansard.device.clocks.domains import read_gpu_step_hz
from tests.device.card_machine import DEFAULT, Card, needs_a_card
from tests.device.clock_trees import add_devfreq

ORIN_HZ = tuple(range(306_000_000, 1_300_000_000, 102_000_000))
READ = """
from mansard.device.clocks.domains import read_gpu_step_hz
show(read_gpu_step_hz())
"""


def test_a_board_s_step_is_its_table_s(tmp_path: Path) -> None:
    # Below 306 MHz the steps of AGX Orin are uneven; the usual one counts.
    add_devfreq(tmp_path, "sys/class/devfreq/17000000.gpu", (114_750_000, 216_750_000, *ORIN_HZ))
    assert read_gpu_step_hz(tmp_path) == 102e6


def test_a_folder_without_a_gpu_has_none(tmp_path: Path) -> None:
    assert read_gpu_step_hz(tmp_path) is None
    add_devfreq(tmp_path, "sys/class/devfreq/17000000.gpu", (1_300_500_000,))
    assert read_gpu_step_hz(tmp_path) is None


class TestCard:
    pytestmark = needs_a_card

    def test_a_card_s_step_is_that_of_nvml_s_list_and_nothing_is_set(self, tmp_path: Path) -> None:
        # 345, 1005, 1410, 1710 and 1980 MHz: steps of 660, 405, 300 and 270, the middle 352.5.
        card = Card(tmp_path)
        assert card.run(READ) == [352.5e6]
        assert card.settings == DEFAULT
