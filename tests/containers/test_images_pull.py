"""A base is pulled: its size is said first, by the registry itself, and it can be refused."""

from __future__ import annotations

import platform
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.api.images import save_image
from mansard.containers.engine import ContainerEngine
from mansard.containers.images.building import Order, build_image
from mansard.containers.images.fitting import ensure_image
from mansard.containers.images.pulling import (
    Download,
    Downloads,
    ask_registry,
    downloads,
    progress_lines,
    pull,
)
from mansard.containers.images.store import find, find_base, registry_digest
from mansard.containers.images.table import Image, read_table
from mansard.core.errors import ContainerError, MansardError, StorageError, UsageError
from tests.containers.image_registry import Registry, registry

HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")
CONTENT = random.Random(5).randbytes(40_000)  # does not compress


@pytest.fixture(scope="module")
def served() -> Iterator[Registry]:
    with registry() as content:
        content.add("1", [CONTENT, CONTENT[:9000]], HERE)
        yield content


def entry(base: str) -> Image:
    return msgspec.structs.replace(read_table().image("cpu"), base=base)


def test_the_registry_says_the_size_of_all_layers(served: Registry) -> None:
    name = f"{served.address}/team/base:1"
    asked = ask_registry(name, platform.machine())
    assert asked == Download(name, served.layers_bytes(), f"the manifest at {served.address}")
    assert served.layers_bytes() > 49_000  # two layers that do not compress: 40,000 + 9,000


@pytest.mark.parametrize(
    ("name", "architecture", "words"),
    [
        ("{}/team/base:2", "x86_64", "Not Found"),
        ("{}/team/base:1", "riscv64", "it has none for riscv64"),
        ("127.0.0.1:1/team/base:1", "x86_64", "cannot be asked: .*refused"),
        ("no such name", "x86_64", "not a name of an image"),
        ("registry.invalid/team/base:1", "x86_64", "cannot be asked"),
    ],
)
def test_a_size_that_cannot_be_had_is_unknown_with_its_reason(
    served: Registry, name: str, architecture: str, words: str
) -> None:
    asked = ask_registry(name.format(served.address), architecture)
    assert asked.n_bytes is None
    assert re.search(words, asked.source), asked.source


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"junk",
        b"[]",
        b"{}",
        b'{"layers": 5}',
        b'{"layers": [{}]}',
        b'{"manifests": [5]}',
        b'{"layers": [{"size": "big"}]}',
        b'{"layers": [{"size": -1}]}',
        b"[" * 100_000,
        b'{"layers": [' + b" " * (5 << 20) + b"]}",
    ],
)
def test_manifests_of_a_hostile_registry(served: Registry, manifest: bytes) -> None:
    served.manifests["bad"] = ("application/json", manifest)
    asked = ask_registry(f"{served.address}/team/base:bad", "x86_64")
    assert asked.n_bytes is None
    assert "gave no manifest" in asked.source


@pytest.mark.docker
def test_a_base_is_pulled_and_known_by_its_digest(
    engine: ContainerEngine, served: Registry
) -> None:
    name = f"{served.address}/team/base:1"
    wanted = downloads(engine, entry(name))
    assert wanted.base is not None
    assert wanted.base.n_bytes == served.layers_bytes()
    assert wanted.in_words.startswith("0 MB of ")  # 49 kB, in MB
    assert "about 104 MB of libraries" in wanted.in_words
    lines: list[str] = []
    pull(engine, name, lines.append)
    image = find(engine.client, name)
    assert registry_digest(image) == served_digest(served)
    assert downloads(engine, entry(name)).base is None
    engine.client.images.remove(name)


def served_digest(served: Registry) -> str:
    from tests.containers.image_registry import digest_of

    return digest_of(served.manifests["1"][1])


@pytest.mark.docker
def test_a_base_with_a_digest_is_that_very_image(engine: ContainerEngine, served: Registry) -> None:
    tag = f"{served.address}/team/base:1"
    pinned, other = f"{tag}@{served_digest(served)}", f"{tag}@sha256:{'0' * 64}"
    assert find_base(engine.client, pinned) is None
    pull(engine, pinned)
    found = find_base(engine.client, pinned)
    assert found is not None
    assert (found[0], registry_digest(found[1])) == (pinned, served_digest(served))
    assert downloads(engine, entry(pinned)).base is None
    # The tag was pulled with another digest than the one that is asked for.
    pull(engine, tag)
    assert find_base(engine.client, other) is None
    with pytest.raises(ContainerError, match="base image is not there"):
        pull(engine, other)
    engine.client.images.remove(found[1].id, force=True)


@pytest.mark.docker
def test_a_base_that_was_loaded_from_a_file_goes_by_its_tag(engine: ContainerEngine) -> None:
    engine.client.api.import_image_from_data(_empty_tar(), repository="team/loaded", tag="1")
    pinned = f"team/loaded:1@sha256:{'0' * 64}"
    found = find_base(engine.client, pinned)
    assert found is not None
    assert (found[0], registry_digest(found[1])) == ("team/loaded:1", "")
    engine.client.images.remove("team/loaded:1")


def _empty_tar() -> bytes:
    return b"\0" * 10240


@pytest.mark.docker
def test_a_no_downloads_nothing(engine: ContainerEngine, served: Registry) -> None:
    name = f"{served.address}/team/base:1"
    questions: list[Downloads] = []

    def no(wanted: Downloads) -> bool:
        questions.append(wanted)
        return False

    with pytest.raises(UsageError, match="nothing was downloaded"):
        build_image(engine, entry(name), Order(confirm=no))
    assert len(questions) == 1
    assert find(engine.client, name) is None
    said: list[str] = []
    with pytest.raises(UsageError, match="nothing was downloaded"):
        ensure_image(engine, entry(name), say=said.append, ask=lambda _: False)
    assert said[0].startswith(f"to download: 0 MB of {name}")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("tag", "faults", "words"),
    [
        ("2", set(), "the base image is not there"),
        ("1", {"cut"}, "could not be pulled|no network"),
    ],
)
def test_a_pull_that_fails_is_one_line_and_leaves_nothing(
    engine: ContainerEngine, served: Registry, tag: str, faults: set[str], words: str
) -> None:
    name = f"{served.address}/team/base:{tag}"
    served.faults |= faults
    try:
        with pytest.raises(ContainerError, match=words) as raised:
            pull(engine, name)
    finally:
        served.faults.clear()
    assert name in str(raised.value)
    assert find(engine.client, name) is None


@pytest.mark.docker
def test_a_registry_that_nobody_reaches(engine: ContainerEngine) -> None:
    with pytest.raises(ContainerError, match=r"no network: .*; check the network"):
        pull(engine, "127.0.0.1:1/team/base:1")
    with pytest.raises(ContainerError, match="no network"):
        pull(engine, "registry.invalid/team/base:1")


@pytest.mark.docker
def test_what_cannot_fit_on_the_disk_is_not_begun(
    engine: ContainerEngine, served: Registry
) -> None:
    free = engine.facts.free_bytes()
    assert free is not None
    # 3 bytes on the disk for each one that is downloaded: a third of what is free is too much.
    huge = msgspec.structs.replace(
        entry("registry.invalid/team/base:1"), download_bytes=free // 2, python="3.12"
    )
    with pytest.raises(StorageError, match="GB are free; free some space"):
        build_image(engine, huge)


@pytest.mark.docker
def test_an_image_for_another_processor_is_refused(engine: ContainerEngine) -> None:
    jetson = read_table().image("jetpack-6.1")
    if engine.facts.architecture == "aarch64":
        pytest.skip("this is the processor that it is for")
    with pytest.raises(ContainerError, match="is for aarch64, and the engine runs on") as raised:
        build_image(engine, jetson)
    assert isinstance(raised.value, MansardError)


@pytest.mark.docker
def test_an_image_that_is_not_built_is_not_saved(engine: ContainerEngine, tmp_path: Path) -> None:
    path = tmp_path / "image.tar.gz"
    with pytest.raises(ContainerError, match="cpu of this version is not built yet; run 'mansard"):
        save_image(path, "cpu", engine=engine.address)
    assert not path.exists()


def test_progress_counts_the_layers_that_have_begun() -> None:
    def event(layer: str, status: str, done: int = 0, total: int = 0) -> dict[str, Any]:
        return {"id": layer, "status": status, "progressDetail": {"current": done, "total": total}}

    events: list[dict[str, Any]] = [
        {"status": "Pulling from base", "id": "1"},
        event("a", "Downloading", 1_000_000, 4_000_000),
        event("b", "Downloading", 1_000_000, 6_000_000),  # too soon for another line
        event("a", "Download complete"),
        event("b", "Downloading", 5_000_000, 6_000_000),
    ]
    # The clock is read before the first event, then while layers are there, and after a line.
    times = iter([0.0, 1.0, 1.0, 2.0, 3.0, 7.0, 7.0])
    lines = list(progress_lines("base", iter(events), lambda: next(times)))
    # 4 MB of a, 5 of 6 of b
    assert lines == [
        "pulling base: 1 MB of 4 MB in 1 layers so far",
        "pulling base: 9 MB of 10 MB in 2 layers so far",
    ]
