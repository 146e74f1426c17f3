"""Who needs what: the command starts light, the on-device rooms need three libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mansard.api import write_networks

HEAVY = {
    "polars", "altair", "onnx", "numba", "docker", "numpy", "jinja2", "scipy", "vl_convert",
    "pydantic", "rich", "multiprocessing",
}  # fmt: skip

# Refuses every import from outside the standard library but those named.
BLOCKER = """
import sys
allowed = set(sys.argv[1].split(",")) | {"mansard"} | set(sys.stdlib_module_names)
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run_python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["bench", "--help"], ["score", "--help"], ["recommend", "--help"], ["--version"]],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    result = run_python("-X", "importtime", "-m", "mansard.cli", *arguments)
    assert result.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "typer" in loaded  # the list is really one of imports
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", ["resnet50", "ssdlite320_mobilenet_v3_large"])
def test_scoring_a_file_loads_what_scoring_needs(name: str, tmp_path: Path) -> None:
    # The command once took 0.26 s where scoring takes 0.03: it imported Polars, and Typer Pydantic;
    # NumPy, because a Cast in the SSD's shape arithmetic had only its evaluator; Rich, for a table;
    # the tables of all boards, for an option that was not given.
    (path,) = write_networks(tmp_path, [name])
    code = "import sys; from mansard.cli.__main__ import run; code = run(sys.argv[1:])"
    code += "; print(*sys.modules, file=sys.stderr); sys.exit(code)"
    result = run_python("-c", code, "score", str(path), "--batch=1")
    assert result.returncode == 0
    loaded = set(result.stderr.split())
    assert "mansard.estimator.scoring" in loaded
    assert not loaded & HEAVY
    assert not loaded & {"mansard.cli.measuring.bench", "mansard.core.hardware"}


def test_the_api_loads_no_library_before_a_function_needs_it() -> None:
    result = run_python("-X", "importtime", "-c", "import mansard.api")
    assert result.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "mansard.api" in loaded
    assert not loaded & (HEAVY | {"msgspec", "typer"})


def test_predicting_and_recommending_load_no_scipy() -> None:
    # Its import takes as long as a third of a whole recommendation.
    modules = "mansard.analytics.decisions.recommend, mansard.analytics.decisions.next_modes, "
    modules += "mansard.analytics.models.predict.prediction, mansard.analytics.pages.report.write"
    result = run_python("-X", "importtime", "-c", f"import {modules}")
    assert result.returncode == 0, result.stderr
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "polars" in loaded
    assert "scipy" not in loaded


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("core", "msgspec"),
        ("device", "msgspec"),
        ("simulator", "msgspec"),
        ("measuring", "msgspec"),
        ("microbench", "msgspec,numpy,numba,llvmlite"),
        ("estimator", "msgspec,numpy,onnx,google,ml_dtypes,typing_extensions"),
        ("scheduler", "msgspec,numpy,numba,llvmlite"),
    ],
)
def test_each_room_imports_with_its_own_libraries_only(room: str, allowed: str) -> None:
    code = f"""{BLOCKER}
import importlib, pkgutil
import mansard.{room} as room
names = [m.name for m in pkgutil.walk_packages(room.__path__, room.__name__ + ".")]
assert names
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
"""
    result = run_python("-c", code, allowed)
    assert result.returncode == 0, result.stderr


def test_a_plan_runs_with_numpy_numba_and_msgspec_alone(tmp_path: Path) -> None:
    code = f"""{BLOCKER}
import msgspec
from pathlib import Path
from mansard.core.storage.documents import read_document, write_document
from mansard.microbench.__main__ import main
from mansard.microbench.plan import KernelPlan
path = Path("plan.json")
assert main(["plan.json", "--make", "quick", "--mode", "1c"]) == 0
plan = read_document(path, KernelPlan)
few = tuple(t for t in plan.trials if t.kernel in ("fma", "triad"))[:3]
short = msgspec.structs.replace(plan.protocol, time_cap_s=0.2)
write_document(path, msgspec.structs.replace(plan, trials=few, protocol=short))
assert main(["plan.json"]) == 0
assert main(["plan.json"]) == 0
"""
    result = run_python("-c", code, "msgspec,numpy,numba,llvmlite", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    last = result.stdout.splitlines()
    assert '"measured":3,"resumed":0}' in last[-2]
    assert '"measured":0,"resumed":3}' in last[-1]
