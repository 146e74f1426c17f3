"""A base image and wheels made of what is installed here: images are built without a registry."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from types import MappingProxyType
from typing import Any

BASE = "mansard-test/python:local"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = ("numpy", "numba", "llvmlite", "msgspec", "onnxruntime")
# Of the standard library: what nothing here needs, and what config-3.x-… holds for compiling.
NOTHING: Mapping[str, Path] = MappingProxyType({})
_NEEDLESS = frozenset(
    {"test", "idlelib", "lib2to3", "tkinter", "ensurepip", "__pycache__", "site-packages"}
)
_LIBRARY = re.compile(r"(/\S+) \(0x")


def import_base(
    client: Any,
    name: str = BASE,
    *,
    folders: Mapping[str, Path] = NOTHING,
    changes: Iterable[str] = (),
) -> None:
    """Import an image with this machine's Python, its pip and the C libraries they need.

    ``folders``: and files of this machine that it has as well, by their paths there; ``changes``
    as a Dockerfile has.
    """
    repository, _, tag = name.rpartition(":")
    with tempfile.TemporaryFile() as data:
        with tarfile.open(fileobj=data, mode="w") as archive:
            _write_base(archive, list(folders.values()))
            for path, folder in folders.items():
                for file in [folder] if folder.is_file() else _files(folder):
                    _add_file(archive, str(Path(path, file.relative_to(folder))), file)
        data.seek(0)
        said = client.api.import_image_from_data(data, changes=list(changes))
        _tag(client, said, repository, tag)


def fill_with_wheels(folder: Path, packages: Iterable[str] = PACKAGES) -> None:
    """Pack installed packages into wheels again; raises LookupError where one cannot be."""
    for name in packages:
        try:
            _pack(distribution(name), folder)
        except PackageNotFoundError as error:
            raise LookupError(f"{name} is not installed") from error


def _write_base(archive: tarfile.TarFile, folders: Iterable[Path]) -> None:
    interpreter = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    files = {path: path for path in (interpreter, *_files(standard))}
    pip = Path(str(distribution("pip").locate_file("pip")))
    home = standard / "site-packages/pip"
    files |= {home / path.relative_to(pip): path for path in _files(pip)}
    compiled = [path for path in files.values() if path.suffix == ".so"]
    packages = Path(str(distribution("numpy").locate_file("")))
    for name in PACKAGES:
        compiled += (packages / name).rglob("*.so*")
    for folder in folders:
        compiled += folder.rglob("*.so*")
    shell = Path("/bin/sh")  # that a simulated board's tools begin with
    files |= {path: path for path in _libraries([interpreter, shell, *compiled])}
    files[shell] = shell.resolve()
    _add_folder(archive, "tmp", 0o1777)
    for path, source in sorted(files.items()):
        _add_file(archive, str(path), source)
    link = tarfile.TarInfo("usr/local/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, str(interpreter)
    archive.addfile(link)


def _add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _add_file(archive: tarfile.TarFile, name: str, source: Path) -> None:
    """A file of root's that all may read; a link becomes what it leads to."""
    with source.open("rb") as content:
        entry = tarfile.TarInfo(name.lstrip("/"))
        entry.size, entry.mode = source.stat().st_size, 0o755
        entry.mtime = int(source.stat().st_mtime)
        archive.addfile(entry, content)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in _NEEDLESS or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _libraries(programs: list[Path]) -> set[Path]:
    """The C libraries that the dynamic linker finds for ``programs``, and the linker itself."""
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    # Libraries that packages bring themselves come with them.
    own = {path.parent for path in programs if path.suffix == ".so"}
    found = {Path(each) for each in _LIBRARY.findall(told.stdout)}
    return {path for path in found if path.parent not in own and ".libs" not in str(path)}


def _pack(package: Distribution, folder: Path) -> None:
    """One wheel, stored without compression: it is unpacked again in a minute."""
    tags = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)
    if not tags:
        raise LookupError(f"{package.name} was not installed from a wheel")
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    name = f"{package.name.replace('-', '_')}-{package.version}"
    rows = csv.reader(io.StringIO(package.read_text("RECORD")))
    kept = [row for row in rows if not row[0].startswith("..") and "__pycache__" not in row[0]]
    with zipfile.ZipFile(folder / f"{name}-{python}-{abi}-{platforms}.whl", "w") as wheel:
        for row in kept:
            if not row[0].endswith("/RECORD"):
                wheel.write(str(package.locate_file(row[0])), row[0])
        lines = io.StringIO()
        csv.writer(lines).writerows(kept)
        wheel.writestr(f"{name}.dist-info/RECORD", lines.getvalue())


def import_program(client: Any, program: Path, name: str, changes: Iterable[str] = ()) -> str:
    """Import an image of one program and the C libraries it needs; its id."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted({program, *_libraries([program])}):
            _add_file(archive, str(path), path)
    repository, _, tag = name.rpartition(":")
    said = client.api.import_image_from_data(data.getvalue(), changes=list(changes))
    _tag(client, said, repository, tag)
    return str(client.images.get(name).id)


def _tag(client: Any, said: str, repository: str, tag: str) -> None:
    """Name what was imported: podman 4.3 takes no tag with an import."""
    client.api.tag(json.loads(said.splitlines()[-1])["status"], repository, tag)
