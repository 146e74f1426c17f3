"""Contention: the regions of PCCS by hand, surfaces between their points, fits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from mansard.core.errors import InputError
from mansard.core.records.schedule import Accelerator, ContentionSurface, PccsFit, Problem
from mansard.scheduler.contention import (
    contention_of,
    error_points,
    fit_pccs,
    losses,
    speed,
)
from reproductions.solvers.pccs import reference_fit

FIT = PccsFit(
    normal_byte_per_s=40e9,
    intensive_byte_per_s=80e9,
    peak_byte_per_s=100e9,
    minor_points=4.0,
    contention_byte_per_s=50e9,
    total_byte_per_s=70e9,
    points_per_byte_per_s=0.5e-9,
    error_points=0.0,
    left_out_points=0.0,
)
SURFACE = ContentionSurface(
    own_byte_per_s=(10.0, 20.0),
    external_byte_per_s=(10.0, 30.0),
    achieved_byte_per_s=((9.0, 8.0), (16.0, 10.0)),
)


@pytest.mark.parametrize(
    ("own", "external", "points"),
    [
        (40e9, 25e9, 1.0),  # minor: 4 · 25 / 100
        (50e9, 15e9, 0.0),  # normal, 50 + 15 < 70
        (50e9, 30e9, 5.0),  # normal: 0.5 · (50 + 30 − 70)
        (50e9, 90e9, 15.0),  # normal: 0.5 · (50 + 50 − 70)
        (80e9, 25e9, 15.0),  # intensive: 0.5 · (80 + 50 − 70) / 50 · 25
        (80e9, 90e9, 30.0),  # intensive: 0.5 · (80 + 50 − 70) / 50 · 50
        (80e9, 0.0, 0.0),
        (75e9, 1e9, 3.0),  # normal: 0.5 · (75 + 1 − 70)
        (39e9, 1e15, 99.0),  # minor: no group is stopped
    ],
)
def test_each_region_of_pccs(own: float, external: float, points: float) -> None:
    assert speed(FIT, own, external) == pytest.approx(1 - points / 100, abs=1e-12)


@pytest.mark.parametrize(
    ("own", "external", "share"),
    [
        (10.0, 10.0, 0.9),  # 9 of 10
        (20.0, 30.0, 0.5),  # 10 of 20
        (15.0, 10.0, 0.85),  # between 0.9 and 0.8
        (15.0, 20.0, 0.75),  # between 0.85 and (0.8 + 0.5) / 2
        (20.0, 5.0, 0.9),  # between 1 without external demand and 0.8
        (99.0, 99.0, 0.5),  # the nearest corner
        (1.0, 30.0, 0.8),
        (20.0, 0.0, 1.0),
    ],
)
def test_a_surface_is_bilinear(own: float, external: float, share: float) -> None:
    assert speed(SURFACE, own, external) == pytest.approx(share, abs=1e-12)


def test_a_single_row_and_column_hold_for_every_demand() -> None:
    single = ContentionSurface(
        own_byte_per_s=(10.0,), external_byte_per_s=(10.0,), achieved_byte_per_s=((5.0,),)
    )
    assert speed(single, 3.0, 99.0) == 0.5
    assert speed(single, 99.0, 5.0) == 0.75


def test_an_accelerator_without_contention_keeps_its_speed() -> None:
    problem = Problem(
        accelerators=(
            Accelerator(name="gpu", kind="gpu"),
            Accelerator(name="dla", kind="dla"),
            Accelerator(name="cpu", kind="cpu"),
        ),
        networks=(),
        pccs={"gpu": FIT},
        surfaces={"dla": SURFACE},
        unknown={"idle_w": "not measured"},
    )
    found = [speed(contention_of(problem, name), 80e9, 90e9) for name in ("gpu", "dla", "cpu")]
    assert found == pytest.approx([0.7, 0.5, 1.0])


def test_the_fit_finds_parameters_that_were_made_up() -> None:
    own, external = np.arange(10e9, 101e9, 10e9), np.arange(10e9, 101e9, 10e9)
    truth = msgspec.structs.replace(FIT, total_byte_per_s=65e9)
    surface = ContentionSurface(
        own_byte_per_s=tuple(own),
        external_byte_per_s=tuple(external),
        achieved_byte_per_s=tuple(tuple(x * speed(truth, x, y) for y in external) for x in own),
    )
    found = fit_pccs(surface)
    assert found.error_points is not None
    assert found.error_points < 0.05
    assert 40e9 <= found.normal_byte_per_s < 50e9
    assert 70e9 < found.intensive_byte_per_s <= 80e9
    assert found.minor_points / found.peak_byte_per_s == pytest.approx(4e-11, rel=1e-6)
    assert found.total_byte_per_s == pytest.approx(65e9, rel=0.02)
    assert found.contention_byte_per_s == pytest.approx(50e9, rel=0.02)
    assert found.points_per_byte_per_s == pytest.approx(0.5e-9, rel=0.02)
    assert found.left_out_points is not None
    assert found.left_out_points >= found.error_points
    assert error_points(found, surface) == found.error_points


def test_a_memory_that_loses_nothing_has_a_fit_that_loses_nothing() -> None:
    flat = ContentionSurface(
        own_byte_per_s=(1e9, 2e9),
        external_byte_per_s=(1e9,),
        achieved_byte_per_s=((1e9,), (2e9,)),
    )
    found = fit_pccs(flat)
    assert found.error_points == 0.0
    assert found.left_out_points is None


@pytest.mark.parametrize(
    ("own", "achieved", "message"),
    [
        ((2.0, 1.0), ((1.0,), (1.0,)), "not positive and ascending"),
        ((0.0, 1.0), ((1.0,), (1.0,)), "not positive and ascending"),
        ((1.0, 2.0), ((1.0,),), "2 × 1 achieved"),
    ],
)
def test_a_surface_that_is_none_is_refused(
    own: tuple[float, ...], achieved: tuple[tuple[float, ...], ...], message: str
) -> None:
    surface = ContentionSurface(
        own_byte_per_s=own, external_byte_per_s=(1.0,), achieved_byte_per_s=achieved
    )
    with pytest.raises(InputError, match=message):
        fit_pccs(surface)


@pytest.mark.parametrize(
    "wrong",
    [{"peak_byte_per_s": 0.0}, {"contention_byte_per_s": 0.0}, {"normal_byte_per_s": 90e9}],
)
def test_a_fit_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    problem = Problem(
        accelerators=(Accelerator(name="gpu", kind="gpu"),),
        networks=(),
        pccs={"gpu": msgspec.structs.replace(FIT, **wrong)},
        unknown={"idle_w": "not measured"},
    )
    with pytest.raises(InputError, match="PCCS fit"):
        contention_of(problem, "gpu")


@pytest.mark.shared_data
def test_the_recorded_matrix_of_a_xavier(shared_data: Path) -> None:
    words = next((shared_data / "scheduling").glob("*PCCS*matrix.txt")).read_text().split()
    n_own, n_external = int(words[0]), int(words[11])
    numbers = [float(word) * 1e9 for word in words[1:11] + words[12:]]
    cells = numbers[20:]
    surface = ContentionSurface(
        own_byte_per_s=tuple(numbers[:10]),
        external_byte_per_s=tuple(numbers[10:20]),
        achieved_byte_per_s=tuple(
            tuple(cells[row * n_external : (row + 1) * n_external]) for row in range(n_own)
        ),
    )
    assert fit_pccs(surface).error_points == pytest.approx(1.23, abs=0.005)

    theirs = reference_fit(surface, 137e9)
    assert theirs.normal_byte_per_s == 37.6e9
    assert theirs.intensive_byte_per_s == 65.7e9
    assert theirs.minor_points == pytest.approx(3.723404, abs=1e-6)
    assert theirs.total_byte_per_s == pytest.approx(82.8e9)
    assert theirs.contention_byte_per_s == pytest.approx(46.633333e9)
    assert theirs.points_per_byte_per_s == pytest.approx(0.571106e-9, rel=1e-6)
    assert theirs.error_points == pytest.approx(7.65, abs=0.005)

    own, external, lost = losses(surface)
    errors = []
    for row in range(1, n_own - 1):  # each inner row from the others
        rest = [place for place in range(n_own) if place != row]
        others = ContentionSurface(
            own_byte_per_s=tuple(own[rest]),
            external_byte_per_s=surface.external_byte_per_s,
            achieved_byte_per_s=tuple(surface.achieved_byte_per_s[place] for place in rest),
        )
        errors += [
            abs(100 - 100 * speed(others, own[row], y) - lost[row, column])
            for column, y in enumerate(external)
        ]
    assert np.mean(errors) == pytest.approx(1.99, abs=0.005)
