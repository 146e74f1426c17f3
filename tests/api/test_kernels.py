"""Kernels of one's own, measured without the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard import api
from mansard.core.errors import UsageError


def test_the_kernels_that_are_given_are_measured_and_no_others(tmp_path: Path) -> None:
    rows = api.measure_kernels([api.find_kernel("triad")], runs=tmp_path)
    assert {row.kernel for row in rows} == {"triad"}
    assert len({row.trial_id for row in rows}) == len(rows)


def test_a_profile_without_a_trial_of_a_kernel_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the profile brief has no trial of copy; ask for"):
        api.measure_kernels([api.find_kernel("copy")], runs=tmp_path)
