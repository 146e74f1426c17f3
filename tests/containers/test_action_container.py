"""The steps of the GitHub Action in a container, as a job with ``container:`` runs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import docker
import pytest

from tests.cli.action_runner import Job, measure_input, run_action
from tests.containers.throwaway import Daemon, host_folders

pytestmark = [pytest.mark.docker, pytest.mark.slow]


class JobContainer(NamedTuple):
    """A container that lives as long as a job; each script is a process that joins it."""

    container: Any
    folder: str = "/__w"  # GitHub's name: another path than the host's
    path: str = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        variables = {"HOME": "/github/home", **environment}
        done = self.container.exec_run(list(command), environment=variables, workdir=self.folder)
        return int(done.exit_code), done.output.decode()


@pytest.fixture
def place(daemon: Daemon, bare_image: str, tmp_path: Path) -> Iterator[JobContainer]:
    """This machine's Python and this checkout to read, and the job's folder to write."""
    volumes = {str(path): {"bind": str(path), "mode": "ro"} for path in host_folders()}
    volumes[str(tmp_path)] = {"bind": JobContainer._field_defaults["folder"], "mode": "rw"}
    # A step is silent for as long as a measurement lasts.
    client = docker.DockerClient(base_url=daemon.address, timeout=600)
    container = client.containers.run(
        bare_image,
        ["sleep", "infinity"],
        detach=True,
        init=True,
        network_mode="none",
        volumes=volumes,
    )
    yield JobContainer(container)
    container.remove(force=True)
    client.close()


def test_a_build_is_measured_compared_and_gated_in_a_container(
    place: JobContainer, tmp_path: Path
) -> None:
    # A score: the times of a busy machine may decide nothing.
    measure = measure_input("bash", "score.sh", name="my nap", repeat=3)

    def gate(score: float) -> Job:
        (tmp_path / "score.sh").write_text(f"echo 'score: {score}'\n")
        inputs = {"measure": measure, "checks": "metric -10%", "repeat": "3"}
        inputs |= {"unknown": "warn"}  # the first job has no baseline
        return run_action(tmp_path, inputs, place)

    def file(job: Job, output: str) -> Path:
        path = Path(job.outputs[output]).relative_to(place.folder)
        return tmp_path / path

    job = gate(10)
    assert (job.code, job.outputs["verdict"]) == (0, "none"), job.log
    assert "There is no baseline yet" in job.summary
    (tmp_path / "mansard-baseline.json").write_bytes(file(job, "baseline").read_bytes())
    for score, code, verdict in ((10, 0, "within"), (5, 3, "worse")):
        job = gate(score)
        assert (job.code, job.outputs["verdict"]) == (code, verdict), job.log
        assert "| my nap: metric |" in job.summary
        assert "| my nap: time |" in job.summary
        assert file(job, "comment").read_text() == job.summary
        assert ("::error::" in job.log) == (code == 3)
