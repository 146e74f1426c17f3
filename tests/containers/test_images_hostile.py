"""Archives that are not what they seem: none of their bytes reaches the engine."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.images.loading import load_image, read_archive, rewrite
from mansard.containers.images.store import digest_path
from mansard.core.errors import InputError, StorageError
from tests.containers.image_archives import (
    END,
    LABELS,
    LAYER,
    TABLE,
    TAG,
    config_of,
    entry,
    image_tar,
    names_in,
    pax,
    with_digest,
    written,
)
from tests.containers.stand_in_engine import DOCKER_28, Asked, stand_in_engine

MIB = 1 << 20
HOST = {**DOCKER_28["/info"][1], "Architecture": "x86_64"}


@pytest.fixture
def asked() -> list[Asked]:
    """The requests that the engine of the test has got."""
    return []


@pytest.fixture
def engine(
    tmp_path_factory: pytest.TempPathFactory, asked: list[Asked]
) -> Iterator[ContainerEngine]:
    """An engine on x86-64 that would load everything."""
    answers: dict[str, tuple[int, Any]] = {
        **DOCKER_28,
        "/info": (200, HOST),
        "/images/load": (200, {"stream": f"Loaded image: {TAG}\n"}),
        "/json": (200, {"Id": "sha256:1", "RepoTags": [TAG], "Size": 1}),
    }
    with (
        stand_in_engine(tmp_path_factory.mktemp("e"), answers, asked) as address,
        connect(address) as connected,
    ):
        yield connected


def sparse_of_gnu() -> bytes:
    """An entry of GNU's old sparse format: 1 TiB of nothing."""
    block = bytearray(entry("hole", type=tarfile.GNUTYPE_SPARSE))
    block[483:495] = f"{1 << 33:011o}\0".encode()  # realsize, as wide as octal digits go
    checksum = sum(block[:148]) + sum(block[156:512]) + 8 * 32
    block[148:156] = f"{checksum:06o}\0 ".encode()
    return bytes(block)


ZEROS = [bytes([number]) + bytes(8 * MIB) for number in range(10)]
SPARSE = pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x"})
OTHERS = {
    "another's name": (image_tar(tags=["docker.io/library/python:3.12"]), "not mansard/cpu:"),
    "two names": (image_tar(tags=[TAG, "docker.io/library/python:3.12"]), "with 2 names"),
    "no name": (image_tar(tags=[]), "with 0 names"),
    "two images": (image_tar(manifests=2), "holds 2 images"),
    "no label": (image_tar(config=config_of([LAYER], {})), "no image of Mansard's"),
    "a label not in the table": (
        image_tar(config=config_of([LAYER], {"mansard.image": "mine"})),
        "mine, which is not in the table",
    ),
    "another version": (
        image_tar(
            tags=["mansard/cpu:0.0.9-0123456789abcdef"],
            config=config_of([LAYER], {**LABELS, "org.opencontainers.image.version": "0.0.9"}),
        ),
        "of Mansard 0.0.9, this is",
    ),
    "another processor": (
        image_tar(config=config_of([LAYER], architecture="arm64")),
        "for aarch64, and the engine runs on x86_64",
    ),
    "another layer": (image_tar(config=config_of([LAYER + END])), "holds another"),
    "no layer of two": (image_tar(config=config_of([LAYER, LAYER])), "lacks a layer"),
    "no configuration": (
        entry("manifest.json", b'[{"Config": "c.json", "RepoTags": [], "Layers": []}]') + END,
        "lacks c.json",
    ),
    "the same file twice": (image_tar(extra=entry("config.json", b"{}")), "twice"),
    "a deep manifest": (entry("manifest.json", b"[" * 100_000) + END, "cannot be read"),
    "a manifest by another path": (
        image_tar(extra=entry("./manifest.json", b"[]")),
        "manifest.json",
    ),
    "a manifest that is a link": (
        entry("m", b"[]") + entry("manifest.json", type=tarfile.LNKTYPE, linkname="m") + END,
        "no manifest.json",
    ),
    "a way out": (image_tar(extra=entry("../../etc/passwd", b"x")), "etc/passwd"),
    "an absolute name": (image_tar(extra=entry("/etc/passwd", b"x")), "etc/passwd"),
    "a device": (image_tar(extra=entry("sda", type=tarfile.BLKTYPE)), "neither a file"),
    "a size of exabytes": (image_tar(extra=entry("x", size=1 << 60)), "says it has"),
    "a size below zero": (image_tar(extra=entry("x", size=-512)), "says it has"),
    "a size of pax": (image_tar(extra=pax({"size": "9" * 5000}) + entry("x")), "says it has"),
    "a sparse file": (image_tar(extra=sparse_of_gnu()), "sparse"),
    "a sparse file of pax": (
        image_tar(extra=pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}) + entry("x")),
        "damaged header",
    ),
    "a name of megabytes": (
        image_tar(extra=entry("p", bytes(2 * MIB), type=tarfile.GNUTYPE_LONGNAME)),
        "more than 1 MiB",
    ),
    "thousands of entries": (
        image_tar(extra=b"".join(entry(f"e{number}") for number in range(3000))),
        "more than 2000 entries",
    ),
    "many small files": (
        image_tar(extra=b"".join(entry(f"e{n}", bytes(200_000)) for n in range(200))),
        "bytes of small files",
    ),
    "zeros": (image_tar(extra=entry("zeros", bytes(80 * MIB))), "bytes once unpacked"),
    "zeros in a compressed layer": (
        image_tar(extra=entry("l", gzip.compress(bytes(100 * MIB), 1))),
        "bytes once unpacked",
    ),
    "zeros in many small layers": (
        image_tar([gzip.compress(zeros) for zeros in ZEROS], config=config_of(ZEROS)),
        "bytes once unpacked",
    ),
    "one layer many times": (
        image_tar([gzip.compress(ZEROS[0])], config=config_of(ZEROS[:1] * 10), n_uses=10),
        "bytes once unpacked",
    ),
    "a configuration that engines read as another": (
        image_tar(config=config_of([LAYER])[:-1] + b', "Architecture": "arm64"}'),
        "a key twice",
    ),
    "labels that engines read as others": (
        image_tar(config=config_of([LAYER]).replace(b'"Labels"', b'"labels": {}, "Labels"')),
        "a key twice",
    ),
    "a sparse file whose map goes on": (
        image_tar(extra=SPARSE + entry("x", b"9000000\n" + b"0\n" * MIB)),
        "more than 1 MiB",
    ),
    "a chain of headers": (
        image_tar(extra=pax({"comment": "x" * (MIB // 2)}, tarfile.XGLTYPE) * 3 + entry("x")),
        "more than 1 MiB",
    ),
    "a layer that is also a gzip": (
        image_tar([gzip.compress(b"\x1f") + gzip.compress(entry("\x1f\udc8b\x08")[1:] + END)]),
        "holds another",
    ),
    "cut off": (image_tar()[:-3000], "cut off|has no manifest"),
}


@pytest.mark.parametrize(("tar", "words"), OTHERS.values(), ids=OTHERS)
def test_no_other_image_reaches_the_engine(
    engine: ContainerEngine, asked: list[Asked], tmp_path: Path, tar: bytes, words: str
) -> None:
    path = written(tmp_path / "image.tar.gz", tar)
    asked.clear()
    with pytest.raises(InputError, match=words) as raised:
        load_image(engine, path, TABLE)
    assert str(path) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert asked == []


FILES = {
    "empty": (b"", "is not a tar.gz file"),
    "junk": (b"junk" * 1000, "is not a tar.gz file"),
    "no tar": (gzip.compress(b"junk" * 1000), "is not a tar.gz file"),
    "cut off": (gzip.compress(image_tar())[:40], "is not a tar.gz file"),
    "nothing in it": (gzip.compress(END), "has no manifest.json"),
    "no manifest": (gzip.compress(entry("readme", b"hello") + END), "has no manifest.json"),
    "no JSON": (gzip.compress(entry("manifest.json", b"not json") + END), "cannot be read"),
    "no image": (gzip.compress(entry("manifest.json", b"[]") + END), "holds 0 images"),
    "a way out": (
        gzip.compress(
            entry("manifest.json", b'[{"Config": "../../etc/passwd", "Layers": []}]') + END
        ),
        "lacks ../../etc/passwd, which its manifest names",
    ),
}


@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=FILES)
def test_a_file_without_an_image_is_refused(
    engine: ContainerEngine, tmp_path: Path, content: bytes, words: str
) -> None:
    path = with_digest(tmp_path / "image.tar.gz", content)
    with pytest.raises(InputError, match=words) as raised:
        load_image(engine, path, TABLE)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("digest", [b"", b"nonsense\n", b"0" * 64 + b"  other\n", b"\xff"])
def test_a_wrong_digest_is_refused(engine: ContainerEngine, tmp_path: Path, digest: bytes) -> None:
    path = written(tmp_path / "image.tar.gz", image_tar())
    digest_path(path).write_bytes(digest)
    with pytest.raises(InputError, match="copy it again"):
        load_image(engine, path, TABLE)


def test_files_that_are_not_there(engine: ContainerEngine, tmp_path: Path) -> None:
    path = tmp_path / "image.tar.gz"
    with pytest.raises(InputError, match=r"image\.tar\.gz\.sha256: is not there"):
        load_image(engine, path, TABLE)
    digest_path(path).write_text("0" * 64 + "  image.tar.gz\n")
    with pytest.raises(InputError, match=r"image\.tar\.gz: is not there"):
        load_image(engine, path, TABLE)


def loaded_tar(asked: list[Asked]) -> bytes:
    """What the engine was given to load, once."""
    (body,) = [each.body for each in asked if each.path.endswith("/images/load")]
    return body


LAID_OUT = {
    "plain": image_tar(),
    "with podman's name": image_tar(tags=[f"docker.io/{TAG}"]),
    "with strange files": image_tar(extra=entry("x") + entry("y/json", b"{}") + pax({"a": "b"})),
    "with the index of another image": image_tar(
        extra=entry("index.json", b'{"manifests": [{}, {}]}')
        + entry("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        + entry("repositories", b'{"python": {"3.12": "0"}}')
    ),
    "a header of many records": image_tar(
        extra=pax({f"k{number}": "v" for number in range(50_000)}) + entry("x")
    ),
    "a long name": image_tar(extra=pax({"path": "z" * 300}) + entry("z" * 99, b"")),
}


@pytest.mark.parametrize("tar", LAID_OUT.values(), ids=LAID_OUT)
def test_the_engine_gets_the_one_image_and_nothing_else(
    engine: ContainerEngine, asked: list[Asked], tmp_path: Path, tar: bytes
) -> None:
    path = written(tmp_path / "image.tar.gz", tar)
    assert load_image(engine, path, TABLE).name == TAG
    sent = loaded_tar(asked)
    digest = hashlib.sha256(LAYER).hexdigest()
    config = f"{hashlib.sha256(config_of([LAYER])).hexdigest()}.json"
    assert names_in(sent) == [f"{digest}.tar", config, "manifest.json"]
    with tarfile.open(fileobj=io.BytesIO(sent)) as archive:
        content = {name: archive.extractfile(name) for name in archive.getnames()}
        read = {name: file.read() for name, file in content.items() if file is not None}
    assert read[f"{digest}.tar"] == LAYER
    assert json.loads(read["manifest.json"]) == [
        {"Config": config, "RepoTags": [f"docker.io/{TAG}"], "Layers": [f"{digest}.tar"]}
    ]


def test_a_layer_that_is_there_twice_or_compressed(
    engine: ContainerEngine, asked: list[Asked], tmp_path: Path
) -> None:
    big = entry("noise", os.urandom(MIB)) + END
    layers = [big, LAYER, big]
    files = [
        entry("l/0", gzip.compress(big, 1)),
        entry("l/1", LAYER),
        entry("2/layer.tar", type=tarfile.SYMTYPE, linkname="../l/0"),
        entry("config.json", config_of(layers)),
    ]
    names = ["l/0", "l/1", "2/layer.tar"]
    manifest = [{"Config": "config.json", "RepoTags": [TAG], "Layers": names}]
    tar = b"".join((*files, entry("manifest.json", json.dumps(manifest).encode()), END))
    load_image(engine, written(tmp_path / "image.tar.gz", tar), TABLE)
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    names = names_in(loaded_tar(asked))
    assert names[:2] == [f"{digests[0]}.tar", f"{digests[1]}.tar"]
    assert len(names) == 4  # each layer once


def test_a_file_that_changes_while_it_is_sent_is_not_loaded(
    engine: ContainerEngine, asked: list[Asked], tmp_path: Path
) -> None:
    noise = os.urandom(4 * MIB)
    right, wrong = (entry("noise", noise[:-1] + end) + END for end in (b"a", b"b"))
    path = written(tmp_path / "image.tar.gz", image_tar([right]))
    contents = read_archive(path)
    written(path, image_tar([wrong], config=config_of([right])))
    with pytest.raises(InputError, match="changed while it was loaded"):
        b"".join(rewrite(path, contents, TAG))
    with pytest.raises(InputError, match="holds another"):
        load_image(engine, path, TABLE)
    assert not [each for each in asked if each.path.endswith("/images/load")]


def test_a_disk_that_is_too_small_is_said_before(engine: ContainerEngine, tmp_path: Path) -> None:
    path = written(tmp_path / "image.tar.gz", image_tar())
    here = os.uname()
    facts = msgspec.structs.replace(engine.facts, is_local=True, data_root="/proc")
    assert here.sysname == "Linux"  # whose /proc has no room at all
    with pytest.raises(StorageError, match="are free"):
        load_image(dataclasses.replace(engine, facts=facts), path, TABLE)


@pytest.mark.parametrize("which", ["image.tar.gz", "image.tar.gz.sha256"])
def test_a_pipe_and_a_device_are_not_read(
    engine: ContainerEngine, tmp_path: Path, which: str
) -> None:
    path = written(tmp_path / "image.tar.gz", image_tar())
    (tmp_path / which).unlink()
    os.mkfifo(tmp_path / which)
    with pytest.raises(StorageError, match="is not a regular file"):
        load_image(engine, path, TABLE)


def test_an_archive_is_looked_through_in_little_memory(tmp_path: Path) -> None:
    files = b"".join(entry(f"file{number}") for number in range(10_000))
    layer = files + entry("noise", os.urandom(4 * MIB) * 3) + END
    path = written(tmp_path / "image.tar.gz", image_tar([layer]))
    del files
    tracemalloc.start()
    contents = read_archive(path)
    for _ in rewrite(path, contents, TAG):
        pass
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(layer) > 16 * MIB
    assert peak_bytes < 8 * MIB
