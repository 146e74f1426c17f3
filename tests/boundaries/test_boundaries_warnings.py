"""Which warnings of others are no failures of ours: one, by its message and its module."""

from __future__ import annotations

import warnings

import pytest

# As NumPy 2.5 warns when numba-cuda 0.30.4 is imported.
GENERIC = (
    "The 'generic' unit for NumPy timedelta is deprecated, and will raise an error in the future. "
    "This includes implicit conversion of bare integers (e.g. `+ 1`).Please use a specific unit "
    "instead."
)
OF_NUMBA_CUDA = "numba.cuda.np.npdatetime_helpers"


def warn(message: str, category: type[Warning], module: str) -> None:
    warnings.warn_explicit(message, category, "module.py", 31, module=module)


def test_numba_cudas_own_warning_is_none_of_ours() -> None:
    warn(GENERIC, DeprecationWarning, OF_NUMBA_CUDA)


def test_a_wait_for_the_machine_is_no_failure_of_the_test_that_waits() -> None:
    line = "/: this machine is in use by another sweep, process 7; waiting until it has ended"
    warn(line, UserWarning, "mansard.sweeps.modes")


@pytest.mark.parametrize(
    ("message", "category", "module"),
    [
        (GENERIC, DeprecationWarning, "mansard.microbench.kernel"),
        (GENERIC, UserWarning, OF_NUMBA_CUDA),
        ("row_stack is deprecated", DeprecationWarning, OF_NUMBA_CUDA),
    ],
)
def test_all_others_are_failures(message: str, category: type[Warning], module: str) -> None:
    with pytest.raises(category):
        warn(message, category, module)
