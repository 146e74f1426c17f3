"""``mansard doctor`` here and on broken boards: one line and one remedy for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from typer.testing import CliRunner

from mansard.cli.app import make_app
from mansard.device.holding.board_lock import board_lock
from mansard.simulator import create_board, running, set_fault
from tests.cli.in_process import mansard

# What these find depends on the computer that runs the tests, not on the board.
OF_THE_HOST = {
    "Python",
    "load",
    "disk",
    "kernels",
    "ort",
    "tensorrt",
    "trtexec",
    "pinned threads",
    "GPU processes",
    "containers",
    "container image",
    "image disk",
}


def doctor(*arguments: str) -> CompletedProcess[str]:
    return mansard("doctor", *arguments)


def faults(output: str) -> list[tuple[str, str]]:
    """Each line of a fault with the line that follows it, but for those of the host."""
    lines = output.splitlines()
    found = [
        (line, lines[at + 1] if at + 1 < len(lines) else "")
        for at, line in enumerate(lines)
        if line.startswith(("missing ", "warning ", "broken "))
    ]
    return [pair for pair in found if pair[0][9:].partition("  ")[0].strip() not in OF_THE_HOST]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of state of the test's own: this computer may have a sweep of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_doctor_on_a_healthy_board_tells_all_of_it(board: Path) -> None:
    done = doctor("--board", str(board))
    assert done.returncode == 0, done.stderr
    for words in (
        "Jetson AGX Orin 64GB, p3701-0005, tegra234",
        "36.4.7, JetPack 6.2.1",
        "simulated",
        "in mode 30W",
        "VDD_CPU_CV (steps of",
        "the 19 V input is not metered",
    ):
        assert words in done.stdout


def leave_a_journal(root: Path) -> None:
    (root / "var/lib/mansard").mkdir(parents=True)
    (root / "var/lib/mansard/journal.json").write_text("{}")


def unplug_the_clocks(root: Path) -> None:
    for folder in (root / "sys/kernel/debug/bpmp").rglob("emc"):
        folder.rename(folder.with_name("gone"))


def name_another_module(root: Path) -> None:
    tree = root / "proc/device-tree"
    for file in (tree / "compatible", tree / "nvidia,dtsfilename"):
        if file.exists():
            file.write_bytes(file.read_bytes().replace(b"3701-0005", b"3701-0099"))


def name_another_release(root: Path) -> None:
    (root / "etc/nv_tegra_release").write_text("# R41 (release), REVISION: 1.0, GCID: 1\n")


def fault(name: str, value: object) -> Callable[[Path], None]:
    return lambda root: set_fault(root, name, value)


# Board, how it is broken, the check that tells, words of its line, words of the remedy.
FIVE: list[tuple[str, Callable[[Path], None], str, str, str]] = [
    (
        "agx-orin",
        fault("nvpmodel_missing", True),
        "nvpmodel",
        "no mode can be set",
        "nvidia-l4t-nvpmodel",
    ),
    (
        "orin-nano-super",
        fault("labels_swapped", ["VDD_IN", "VDD_SOC"]),
        "total power",
        "labels seem swapped",
        "compare with a meter at the input",
    ),
    (
        "xavier-nx",
        fault("query_errors", ["failed to read PARAM GPU"]),
        "nvpmodel",
        "but it reports: NVPM ERROR",
        "nvpmodel -q",
    ),
    (
        "tx2",
        fault("rail_missing", "VDD_IN"),
        "total power",
        "needs VDD_IN",
        "rails are recorded separately",
    ),
    ("thor", fault("tegrastats_missing", True), "tegrastats", "not found", "nvidia-l4t-tools"),
]
MORE: list[tuple[str, Callable[[Path], None], str, str, str]] = [
    (
        "agx-orin",
        fault("junk_conf", True),
        "power modes",
        "nvpmodel.conf",
        "nvidia-l4t-nvpmodel",
    ),
    ("agx-orin", leave_a_journal, "sweeps", "was interrupted", "mansard board restore"),
    (
        "agx-orin",
        unplug_the_clocks,
        "memory clock",
        "can be capped, but not locked",
        "NVIDIA's own kernel",
    ),
    (
        "agx-orin",
        name_another_module,
        "module",
        "p3701-0099 is not in the table",
        "report its part number",
    ),
    ("agx-orin", name_another_release, "L4T", "no JetPack is known for L4T 41.1.0", "update"),
]


@pytest.mark.parametrize(("name", "break_it", "check", "line", "remedy"), FIVE + MORE)
def test_doctor_tells_one_line_and_one_remedy(
    name: str,
    break_it: Callable[[Path], None],
    check: str,
    line: str,
    remedy: str,
    tmp_path: Path,
) -> None:
    with running(create_board(name, tmp_path)) as root:
        break_it(root)
        done = CliRunner().invoke(make_app(), ["doctor", "--board", str(root)])
    assert done.exit_code == 0, done.output  # the CPU can be measured all the same
    ((told, fix),) = faults(done.stdout)
    assert told[9:].startswith(f"{check} ")
    assert line in told
    assert fix.strip().startswith("→ ")
    assert remedy in fix


def test_doctor_on_a_board_that_another_sweep_holds(board: Path) -> None:
    with board_lock(board):
        done = doctor("--board", str(board))
    ((told, fix),) = faults(done.stdout)
    assert "in use by another sweep" in told
    assert "wait until it has ended" in fix


def test_doctor_as_json_holds_the_same_checks(board: Path) -> None:
    set_fault(board, "rail_missing", "VDD_CPU_CV")
    checks = json.loads(doctor("--board", str(board), "--json").stdout)["checks"]
    assert {check["status"] for check in checks} <= {"ok", "missing", "warning"}
    assert all((check["fix"] is None) == (check["status"] == "ok") for check in checks)
    assert [check["name"] for check in checks if check["name"] == "total power"] == ["total power"]


def test_doctor_here_says_what_is_missing_and_does_not_fail() -> None:
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert "pinned threads" in done.stdout
    lines = done.stdout.splitlines()
    n_faults = sum(line.startswith(("missing ", "warning ")) for line in lines)
    assert n_faults == sum(line.strip().startswith("→ ") for line in lines)


def test_doctor_on_no_board() -> None:
    done = doctor("--board", "no/such/folder")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_doctor_on_an_empty_folder_finds_faults_but_does_not_fall(tmp_path: Path) -> None:
    done = doctor("--board", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "the system does not report its caches" in done.stdout
