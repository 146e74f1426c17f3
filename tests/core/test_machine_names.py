"""Names of machines without noise."""

from __future__ import annotations

import pytest

from mansard.core.hardware.machine_names import machine_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super (simulated)",
            "Jetson Orin Nano Developer Kit Super (simulated)",
        ),
        ("NVIDIA Jetson AGX Orin Developer Kit", "Jetson AGX Orin Developer Kit"),
        ("Intel(R) Core(TM) i7-10750H CPU @ 2.60GHz", "Intel Core i7-10750H"),
        ("11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", "Intel Core i7-1185G7"),
        ("AMD Ryzen 7 5800X 8-Core Processor", "AMD Ryzen 7 5800X"),
        ("AMD Ryzen 7 PRO 4750U with Radeon Graphics", "AMD Ryzen 7 PRO 4750U"),
        ("Intel Xeon Processor (Skylake, IBRS)", "Intel Xeon (Skylake, IBRS)"),
        # What has no noise stays; of noise alone the name stays too.
        ("AMD EPYC", "AMD EPYC"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("x86_64 processor", "x86_64 processor"),
        ("(R)", "(R)"),
    ],
)
def test_the_model_stays_and_the_noise_goes(name: str, words: str) -> None:
    assert machine_words(name) == words
    assert machine_words(words) == words


def test_a_name_that_is_cut_keeps_both_ends_and_tells_no_number_of_characters() -> None:
    # 60 characters: 39, the ellipsis, and the last 20
    assert machine_words("x" * 500 + " Super (simulated)") == f"{'x' * 39}…xx Super (simulated)"
    assert "characters" not in machine_words("y" * 5000)
