"""What Docker, pip and apt say when a build fails, and what we say then: texts that were seen."""

from __future__ import annotations

import re

import pytest

from mansard.containers.engine_errors import explain_build
from mansard.containers.images.building import UNKNOWN_COMMIT
from mansard.containers.images.fitting import quietly
from mansard.core.errors import ContainerError, StorageError
from mansard.core.version import read_commit

PIP_FAILED = "The command 'python3 /build/install.py' returned a non-zero code: 1"
APT_FAILED = "The command '/bin/sh -c apt-get update' returned a non-zero code: 100"
NO_NETWORK = [
    "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by "
    "'NewConnectionError(': Failed to establish a new connection: [Errno -3] Temporary failure in "
    "name resolution')': /simple/numpy/",
    "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
    "'NewConnectionError(': Failed to establish a new connection: [Errno -3] Temporary failure in "
    "name resolution')': /simple/numpy/",
    "ERROR: Could not find a version that satisfies the requirement numpy==2.5.5 (from versions: "
    "none)",
    "ERROR: No matching distribution found for numpy==2.5.5",
]


@pytest.mark.parametrize(
    ("error", "said", "words"),
    [
        (PIP_FAILED, NO_NETWORK, "no network: "),
        # One attempt failed, the next went well: the network is not to blame.
        (PIP_FAILED, [NO_NETWORK[0], NO_NETWORK[3]], "a library is not to be had"),
        (PIP_FAILED, NO_NETWORK[2:], "a library is not to be had .*: ERROR: No matching"),
        (
            APT_FAILED,
            [
                "Err:1 http://mirror.local bookworm InRelease",
                "  Temporary failure resolving 'mirror.local'",
                "E: Failed to fetch http://mirror.local/x  Temporary failure resolving 'm'",
                "E: Unable to locate package python3",
            ],
            "no network: E: Failed to fetch",
        ),
        ("manifest for nvcr.io/nvidia/cuda:1 not found: manifest unknown", [], "is not there"),
        (
            "pull access denied for x, repository does not exist or may require 'docker login': "
            "denied: requested access to the resource is denied",
            [],
            "the base image is not there",
        ),
        ("unauthorized: authentication required", [], "asks for a login"),
        ("Get https://nvcr.io/v2/: dial tcp: lookup nvcr.io: no such host", [], "no network"),
        ("no matching manifest for linux/arm64 in the manifest list entries", [], "processor"),
        (
            "The command 'python3 /build/install.py' returned a non-zero code: 137",
            ["Installing collected packages: numba"],
            "the machine ran out of memory",
        ),
        ("something new", [], "the image could not be built: something new"),
        (PIP_FAILED, ["ERROR: something new"], "could not be built: ERROR: something new"),
    ],
)
def test_what_failed_is_said_with_its_cause(error: str, said: list[str], words: str) -> None:
    told = explain_build(error, "mansard/x:1", said)
    assert isinstance(told, ContainerError)
    assert re.search(words, str(told)), str(told)
    assert str(told).startswith("mansard/x:1: ")
    assert told.fix


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("write /var/lib/docker/overlay2/x: no space left on device", []),
        (
            PIP_FAILED,
            [
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
                "device"
            ],
        ),
    ],
)
def test_a_full_disk_is_a_matter_of_storage(error: str, said: list[str]) -> None:
    told = explain_build(error, "mansard/x:1", said)
    assert isinstance(told, StorageError)
    assert "docker system df" in str(told)


def test_a_flood_of_text_becomes_one_short_line() -> None:
    told = explain_build("x\ny" * 5000, "mansard/x:1")
    assert "\n" not in str(told)
    assert len(str(told)) < 600


def test_lines_that_say_nothing_are_kept_back() -> None:
    lines: list[str] = []
    tell = quietly(lines.append)
    for line in (
        "Step 1/9 : ARG BASE",
        " ---> fcb39c022f69",
        "Step 6/9 : RUN install",
        "Removing intermediate container 12",
        "Installing collected packages: numpy",
    ):
        tell(line)
    assert lines == ["Step 6/9 : RUN install", "Installing collected packages: numpy"]


def test_the_revision_is_a_commit_or_unknown() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", read_commit() or UNKNOWN_COMMIT)
