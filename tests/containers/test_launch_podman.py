"""podman, of root and of a plain user: builds, saves, loads and measures in our own image.

The image has an entry point, as every image of ours has. GPUs do not work, and that is said.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from mansard.containers.engine import NO_GPU, Access, choose_access, connect
from mansard.containers.images.loading import load_image
from mansard.containers.images.store import image_identity, save_image
from mansard.containers.images.table import read_table
from mansard.containers.launch import launched
from mansard.containers.measurer import probe_in_container
from mansard.containers.settings import PYTHON, ContainerLaunch
from mansard.containers.volumes import files_volume
from mansard.core.errors import ContainerError
from mansard.simulator import create_board, running, snapshot
from tests.cli.bench_process import Start, finished_trials, wait_for_trials
from tests.containers.image_here import Here, build_here
from tests.containers.launching import SOMEBODY
from tests.containers.programs import LOOK
from tests.containers.throwaway_podman import Podman, throwaway_podman, why_not
from tests.waiting import awaited

pytestmark = [pytest.mark.docker, pytest.mark.slow]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 600  # a machine with other work needs several times as long


@pytest.fixture(scope="module", params=[False, True], ids=["rootful", "rootless"])
def podman(request: pytest.FixtureRequest) -> Iterator[Podman]:
    reason = why_not(is_rootless=request.param)
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        try:
            service = stack.enter_context(throwaway_podman(is_rootless=request.param))
        except RuntimeError as error:
            pytest.skip(str(error))
        yield service


@pytest.fixture(scope="module")
def here(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Here:
    try:
        return build_here(podman.address, tmp_path_factory.mktemp("image"))
    except LookupError as error:
        pytest.skip(str(error))


def launch(here: Here, *command: str, access: Access = NO_GPU) -> ContainerLaunch:
    return ContainerLaunch(
        image=here.built.digest, command=(PYTHON, *command), user=SOMEBODY, access=access
    )


def test_a_container_of_podman_may_do_nothing_but_compute(podman: Podman, here: Here) -> None:
    program = LOOK.replace("REPO", repr("/opt"))
    with connect(podman.address) as engine:
        assert engine.facts.is_podman
        assert engine.facts.is_rootless is podman.is_rootless
        config = engine.client.images.get(here.built.tag).attrs["Config"]
        assert config["Entrypoint"] == [PYTHON, "-m", "mansard.microbench"]
        with launched(engine, launch(here, "-c", program), b"hello\n") as container:
            seen = json.loads(next(container.lines()))
        assert engine.client.api.containers(all=True) == []
    assert seen["told"] == "hello"
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert seen["no_new_privileges"] == "1"
    assert seen["seccomp"] == "2"
    assert seen["ids"] == [SOMEBODY.uid, SOMEBODY.uid, SOMEBODY.gid, SOMEBODY.gid]
    assert seen["network"] == ["lo"]
    assert seen["writes"]["/x"] == "Read-only file system"


READ = """
import json
from pathlib import Path
found = {str(p): p.read_text() for p in sorted(Path("/files").rglob("*")) if p.is_file()}
for path in ("/files/new", "/files/below/b"):
    try:
        Path(path).write_text("x")
    except OSError as error:
        found[path + " written"] = error.strerror
print(json.dumps(found))
"""


def test_files_are_sent_to_podman_once_and_only_read(
    podman: Podman, here: Here, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a").write_text("1")
    (tmp_path / "below/b").write_text("2")
    sent: list[tuple[int, int]] = []
    with connect(podman.address) as engine:
        with files_volume(engine) as volume:
            for more in ("", "3"):
                (tmp_path / "a").write_text(f"1{more}")
                name = volume.fill(here.built.digest, tmp_path, lambda *now: sent.append(now))
            reading = msgspec.structs.replace(launch(here, "-c", READ), files=name)
            with launched(engine, reading) as container:
                seen = json.loads(next(container.lines()))
        assert engine.client.api.volumes()["Volumes"] == []
        assert engine.client.api.containers(all=True) == []
    assert seen == {
        "/files/a": "13",
        "/files/below/b": "2",
        "/files/new written": "Read-only file system",
        "/files/below/b written": "Read-only file system",
    }
    assert sent == [(1, 2), (2, 2), (2, 2)]  # of the second time the changed one alone


def test_podman_leaves_the_gpu_out_and_the_probe_says_so(podman: Podman, here: Here) -> None:
    with connect(podman.address) as engine:
        access = choose_access(engine.facts, "card")
        assert access.kind == "cdi"
        with pytest.raises(ContainerError, match="no GPU in the container") as caught:
            probe_in_container(engine, launch(here, access=access), "gpu")
    assert "podman's Docker API silently leaves GPUs out" in str(caught.value)
    assert "LOCAL=1" in str(caught.value)


def test_a_bench_in_podman_killed_restored_and_resumed(
    podman: Podman, here: Here, network: Path, start: Start, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    place = podman.folder / "board"  # which the user of a rootless podman can reach
    place.mkdir()
    with running(create_board("agx-orin", place)) as board, connect(podman.address) as engine:
        found = snapshot(board)
        command = [*MANSARD, "bench", "--board", str(board), "--runs", str(runs)]
        command += ["--container-engine", podman.address, "--images", str(here.table), "--offline"]
        command += ["--profile", "brief", "--mode", "15W", str(network)]
        process = start(command)
        wait_for_trials(runs, 2, process)
        assert len(engine.client.api.containers()) == 1
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        assert awaited(lambda: not engine.client.api.containers(all=True))
        kept = {trial.trial_id for trial in finished_trials(runs)}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        assert snapshot(board) == found
        assert engine.client.api.containers(all=True) == []
    trials = [trial.trial_id for trial in finished_trials(runs)]
    assert len(trials) == len(set(trials)) == 14  # those of the profile, none twice
    assert kept <= set(trials)


def test_saved_by_podman_it_is_loaded_again(podman: Podman, here: Here, tmp_path: Path) -> None:
    path = tmp_path / "image.tar.gz"
    with connect(podman.address) as engine:
        before = image_identity(engine, here.built.tag)
        save_image(engine, here.built.tag, path)
        engine.client.images.remove(here.built.tag, force=True)
        with pytest.raises(ContainerError, match="not on this machine"):
            image_identity(engine, here.built.tag)
        assert load_image(engine, path, read_table([here.table])) == before
        assert image_identity(engine, here.built.tag) == before
