"""Before the machine with the card: the wheels that it lacks, unpacked, and how much travels."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.storage.leftovers import temporary_folder
from tools.card_check.__main__ import ROOT

MOST_MIB = 64.0  # of tree and folder together
_MIB = 1 << 20
_TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")
_VERSION = re.compile(r"3\.\d{1,2}")


def prepare(packages: Sequence[str], python: str, into: Path, machine: str = "x86_64") -> int:
    """Fetch the packages, pinned, into a folder; print what travels; 1 where it is too much."""
    if not _VERSION.fullmatch(python):
        raise UsageError(f"--python {python!r} is not a version", fix="write it as 3.12")
    pins = [pin_of(package, python, ROOT / "constraints.txt") for package in packages]
    with temporary_folder() as folder:
        wheels = _download(pins, python, machine, folder)
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(into)
    print(f"{', '.join(pins)} for Python {python} are in {into}")
    return tell_size(ROOT, into)


def pin_of(package: str, python: str, constraints: Path) -> str:
    """``name==version`` by the constraints of that Python; raises UsageError without one."""
    requirements, utils = _packaging("requirements"), _packaging("utils")
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    for line in constraints.read_text(encoding="utf-8").splitlines():
        try:
            one = requirements.Requirement(line)
        except requirements.InvalidRequirement:
            continue  # a comment
        is_for = one.marker is None or one.marker.evaluate(environment)
        if utils.canonicalize_name(one.name) == utils.canonicalize_name(package) and is_for:
            return f"{one.name}{one.specifier}"
    raise UsageError(
        f"{package!r} has no pin for Python {python}", where=constraints.name, fix="check its name"
    )


def _packaging(part: str) -> Any:
    """A module of packaging; pip, which is needed here anyway, has a copy."""
    try:
        return import_module(f"packaging.{part}")
    except ImportError:
        return import_module(f"pip._vendor.packaging.{part}")


def _download(pins: Sequence[str], python: str, machine: str, folder: Path) -> list[Path]:
    platforms = [option for tag in _TAGS for option in ("--platform", f"{tag}_{machine}")]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--implementation", "cp"),
        *("--python-version", python, *platforms, "--dest", str(folder), *pins),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise MansardError(
            f"pip does not fetch {', '.join(pins)}: {said[-1] if said else 'it says nothing'}",
            fix="this step needs a network; check the pins in constraints.txt",
        )
    return sorted(folder.glob("*.whl"))


def tell_size(root: Path, into: Path) -> int:
    """Print how much travels; raises InputError where it is too much."""
    tree, carried = tree_bytes(root, into), folder_bytes(into)
    total_mib = (tree + carried) / _MIB
    parts = f"tree {tree / _MIB:.1f} MiB, carried {carried / _MIB:.1f} MiB"
    print(f"{parts}, {total_mib:.1f} MiB in all")
    if total_mib > MOST_MIB:
        raise InputError(
            f"{total_mib:.1f} MiB are more than the {MOST_MIB:g} that may travel",
            where=str(root),
            fix="move large files that are not tracked out of the checkout",
        )
    return 0


def tree_bytes(root: Path, without: Path) -> int:
    """The size of the files that git tracks or does not ignore, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    names = {name for name in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if name}
    paths = [path for name in names if (path := root / name).is_file()]
    return sum(path.lstat().st_size for path in paths if without not in path.parents)


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
