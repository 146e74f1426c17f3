"""podman's Docker API: measures on the CPU like Docker does, and says why a GPU does not work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mansard.containers.engine import Engine, choose_access, connect
from mansard.containers.launch import launched
from mansard.containers.probing import probe_in_container
from mansard.core.errors import ContainerError
from tests.containers.launching import SOMEBODY, launch, wait_for
from tests.containers.programs import CALLER, LOOK, WAIT
from tests.containers.throwaway import REPOSITORY, import_bare_image
from tests.containers.throwaway_podman import throwaway_podman, why_not

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def podman() -> Iterator[Engine]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        try:
            address = stack.enter_context(throwaway_podman())
        except RuntimeError as error:
            pytest.skip(str(error))
        yield stack.enter_context(connect(address))


@pytest.fixture(scope="module")
def image(podman: Engine) -> str:
    return import_bare_image(podman.client)


def test_container_of_podman_may_do_nothing_but_compute(podman: Engine, image: str) -> None:
    assert podman.facts.is_podman
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    with launched(podman, launch(image, "-c", program), b"hello\n") as container:
        seen = json.loads(next(container.lines()))
    assert seen["told"] == "hello"
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert seen["no_new_privileges"] == "1"
    assert seen["seccomp"] == "2"
    assert seen["ids"] == [SOMEBODY.uid, SOMEBODY.uid, SOMEBODY.gid, SOMEBODY.gid]
    assert seen["network"] == ["lo"]
    assert seen["writes"]["/x"] == "Read-only file system"
    assert podman.client.api.containers(all=True) == []


def test_container_of_podman_ends_with_a_host_process_that_is_killed(
    podman: Engine, image: str
) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, podman.address, image, WAIT],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert caller.stdout is not None
    assert caller.stdout.readline().strip()
    caller.kill()
    caller.communicate()
    wait_for(lambda: not podman.client.api.containers(all=True), "the container ends by itself")


def test_podman_leaves_the_gpu_out_and_the_probe_says_so(podman: Engine, image: str) -> None:
    access = choose_access(podman.facts, "card")
    assert access.kind == "cdi"
    with pytest.raises(ContainerError, match="no GPU in the container") as caught:
        probe_in_container(podman, launch(image, access=access), "gpu")
    assert "podman's Docker API leaves GPUs out" in str(caught.value)
    assert "LOCAL=1" in str(caught.value)
