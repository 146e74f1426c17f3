"""A numba-cuda that this NumPy does not suit is left out, and a note says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.microbench.cuda.probe import probe_gpu
from mansard.microbench.cuda.trial_specs import choose_trials
from tests.microbench.cupy_process import opened, run_python
from tests.microbench.test_gpu_probe import Library

ASKS = "import numpy\nnumpy.no_such_function\n"
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
REPORT = """
print("numba-cuda" in library.versions())
print(*library.unusable(), sep="\\n")
"""


def install(folder: Path, arrayobj: str | None) -> None:
    """The packages numba-cuda 0.30.4 and NumPy 2.5.2, as far as the probe looks at them."""
    package = folder / "numba" / "cuda" / "np"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    if arrayobj is not None:
        (package / "arrayobj.py").write_text(arrayobj)
    for name, version in (("numba-cuda", "0.30.4"), ("numpy", "2.5.2")):
        metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(METADATA.format(name, version))


def test_what_numpy_lacks_is_named(tmp_path: Path) -> None:
    install(tmp_path, ASKS)
    there, line = run_python(opened(13) + REPORT, tmp_path).splitlines()
    assert there == "False"
    assert line == (
        "numba-cuda 0.30.4 does not work with NumPy 2.5.2, so no kernel of it is measured: module "
        "'numpy' has no attribute 'no_such_function'; the extras cuda12 and cuda13 install two "
        "that do"
    )


@pytest.mark.parametrize("arrayobj", ["", None], ids=["works", "keeps-it-elsewhere"])
def test_a_pair_that_works_is_offered(tmp_path: Path, arrayobj: str | None) -> None:
    install(tmp_path, arrayobj)
    assert run_python(opened(13) + REPORT, tmp_path) == "True"


def test_the_note_stands_beside_the_gpu_and_no_trial_of_numba_is_planned() -> None:
    found = probe_gpu(lambda: Library(broken=("numba-cuda 0.30.4 does not work",)))
    assert found.notes[-1] == "numba-cuda 0.30.4 does not work"
    assert found.gpu is not None
    chosen = choose_trials(found.gpu, "brief", found.versions)
    assert {spec.backend for spec in chosen.trials} == {"cupy"}
