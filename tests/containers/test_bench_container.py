"""``mansard bench`` on a simulated AGX Orin, its kernels in a real container.

The image is built here and started by the daemon through the SDK; the board's tools are
processes, its files files. The command is killed in the middle, and run again.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.settings import OWNER_LABEL
from mansard.core.records import Manifest, Measurement
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import snapshot
from tests.cli.bench_process import Start, check_read_back, finished_trials, wait_for_trials
from tests.containers.image_here import Here
from tests.measuring.metered_windows import windows_read
from tests.waiting import awaited

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.board(is_small=True),
    pytest.mark.usefixtures("as_in_a_terminal"),
]
PATIENCE_S = 1500  # a machine with other work needs four times as long


def containers_of(client: Any) -> list[Any]:
    return list(
        client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER_LABEL})
    )


def check_confined(container: Any) -> None:
    """What the engine says of the running container."""
    host = container.attrs["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert all(mount["RW"] is False for mount in container.attrs["Mounts"])
    # Root measures as nobody, who has no files.
    assert container.attrs["Config"]["User"] == "65534:65534"
    rows = container.top(ps_args="-eo pid,args")["Processes"]
    (process,) = [row for row in rows if "mansard.measuring" in row[1]][-1:]
    status = Path(f"/proc/{process[0]}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split() == ["65534"] * 4
    links = Path(f"/proc/{process[0]}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in links] == ["lo"]


def test_kernels_and_a_network_in_a_container_killed_restored_and_resumed(
    board: Path, begin_bench: Start, tmp_path: Path, docker_client: Any, built_image: Here
) -> None:
    runs = tmp_path / "runs"
    found = snapshot(board)
    options = ["--board", str(board), "--runs", str(runs), "--mode", "15W"]
    process = begin_bench(*options)
    wait_for_trials(runs, 3, process)
    (container,) = containers_of(docker_client)
    check_confined(container)
    assert snapshot(board) != found  # it has set a mode
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert awaited(lambda: not containers_of(docker_client))
    kept = {(trial.run_id, trial.trial_id) for trial in finished_trials(runs)}

    # The next run puts the board back by itself, and goes on where it was.
    process = begin_bench(*options)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "resumed" in said
    assert snapshot(board) == found
    assert not containers_of(docker_client)

    manifests = [read_document(path, Manifest) for path in runs.glob("*/manifest.json")]
    check_read_back(manifests, {"15W"})
    for manifest in manifests:
        assert manifest.image_digest == built_image.built.digest
        assert manifest.total_rails == ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
        assert manifest.idle is not None
    trials = finished_trials(runs)
    assert kept <= {(trial.run_id, trial.trial_id) for trial in trials}
    kinds = {kind: [m for m in manifests if m.kind == kind] for kind in ("kernels", "networks")}
    assert len(trials) == sum(manifest.n_trials for manifest in kinds["kernels"])
    # The network that was named was run in the same hold.
    check_read_back(kinds["networks"], {"15W"})
    for manifest in kinds["networks"]:
        rows = read_rows(runs / manifest.run_id / "measurements.jsonl", Measurement).rows
        assert len(rows) == manifest.n_trials
        assert [row.failure for row in rows] == [None] * len(rows)
    assert {trial.source for trial in trials} == {"simulated"}
    assert all(trial.energy for trial in trials)
    windows_read(window for manifest in manifests for window in manifest.idle or ())
    windows_read(window for trial in trials for window in trial.energy or ())
    files = [path for path in runs.rglob("*") if path.is_file()]
    assert {path.stat().st_uid for path in files} == {os.getuid()}
    assert (runs / "report.html").stat().st_size > 100_000


def test_the_image_and_its_digest_stand_in_the_report(
    board: Path, begin_bench: Start, tmp_path: Path, built_image: Here
) -> None:
    runs = tmp_path / "runs"
    # A relative path: the engine does not know the present folder.
    options = ["--board", board.name, "--runs", str(runs), "--json", "--mode", "15W"]
    process = begin_bench(*options, cwd=board.parent)
    wait_for_trials(runs, 2, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == (
        "mansard: interrupted; finished work is kept: the same command resumes"
    )
    (path,) = runs.glob("*/manifest.json")
    content = json.loads(path.read_bytes())["content"]
    assert content["image_digest"] == built_image.built.digest
