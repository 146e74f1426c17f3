"""Every version that an installation of ours takes is written down, with no place to fetch it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mansard.core.storage.documents import read_toml

ROOT = Path(__file__).resolve().parents[2]
LISTS = ROOT / "containers/src/mansard/containers/recipes/lists"
# The files that the Makefile, the images and docs/reference/dependencies.md install an extra with.
FILES = {
    "all": ("constraints.txt",),
    "boards": ("constraints.txt",),
    "networks": ("constraints.txt",),
    "onnxruntime": ("constraints.txt",),
    "report": ("constraints.txt",),
    "dev": ("constraints.txt",),
    "nvidia": ("constraints.txt",),
    "dask": ("constraints.txt",),
    "docs": ("constraints.txt",),
    "peers": ("constraints-peers.txt",),
    "trt-test": ("constraints.txt",),
    "llm": ("constraints.txt",),
    "cuda12": ("constraints.txt", "constraints-cuda12.txt"),
    "cuda13": ("constraints.txt", "constraints-cuda13.txt"),
    "export": ("constraints-export.txt",),
}
_TABLES: dict[str, Any] = read_toml(ROOT / "pyproject.toml", "a project")
PROJECT, BUILD_SYSTEM = _TABLES["project"], _TABLES["build-system"]
_PIN = re.compile(r"([a-z0-9-]+)==([0-9a-z.]+)(?: ; ([^\\]+))?( \\)?")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
# What `make` and the images take from an index: with hashes.
HASHED = (*sorted((ROOT / "requirements").iterdir()), *sorted(LISTS.iterdir()))


def pins(*paths: Path) -> dict[str, set[str]]:
    """The versions of each package; fails for a line that is no pin."""
    found: dict[str, set[str]] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            if line.startswith("#") or _HASH.fullmatch(line):
                continue
            match = _PIN.fullmatch(line)
            assert match, f"{path.name}: {line}"
            found.setdefault(match[1], set()).add(match[2])
    return found


def of_extra(extra: str) -> dict[str, set[str]]:
    return pins(*(ROOT / name for name in FILES[extra]))


def needed(extra: str) -> Iterator[Requirement]:
    yield from map(Requirement, PROJECT["dependencies"])
    yield from added(extra)


def added(extra: str) -> Iterator[Requirement]:
    """What an extra adds to the core, that of the extras that it names among it."""
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if requirement.name == PROJECT["name"]:
            for inner in sorted(requirement.extras):
                yield from added(inner)
        else:
            yield requirement


def test_every_extra_has_its_files_and_every_file_its_extra() -> None:
    assert FILES.keys() == PROJECT["optional-dependencies"].keys()
    named = {name for names in FILES.values() for name in names}
    assert {path.name for path in ROOT.glob("constraints*.txt")} == named


@pytest.mark.parametrize("extra", FILES)
def test_every_package_of_an_extra_is_pinned_within_its_range(extra: str) -> None:
    found = of_extra(extra)
    for requirement in needed(extra):
        name = canonicalize_name(requirement.name)
        assert name in found, f"{extra}: {name}"
        for version in found[name]:
            assert version in requirement.specifier, f"{extra}: {name}=={version}"


@pytest.mark.parametrize("extra", FILES)
def test_what_those_packages_need_is_pinned_too(extra: str) -> None:
    """As far as they are installed here: what they need is known of those alone."""
    found = of_extra(extra)
    ahead = [(one.name, frozenset(one.extras)) for one in needed(extra) if _applies(one)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        name, extras = ahead.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        assert canonicalize_name(name) in found, f"{extra}: {name}"
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        below = [Requirement(line) for line in lines]
        ahead += [(one.name, frozenset(one.extras)) for one in below if _applies(one, extras)]


def _applies(requirement: Requirement, extras: frozenset[str] = frozenset()) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": one}) for one in ("", *extras))


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_an_image_and_a_machine_with_a_card_have_the_same_versions(cuda: str) -> None:
    listed, found = pins(LISTS / f"{cuda}.txt"), of_extra(cuda)
    assert listed.keys() <= found.keys()
    for name, versions in listed.items():
        assert versions == found[name], name


# Asks for numpy.row_stack with the first kernel that it compiles; NumPy 2.5 has none.
NEWEST_NUMBA_CUDA_WITH_ROW_STACK, FIRST_NUMPY_WITHOUT = Version("0.30.4"), Version("2.5")


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_numba_cuda_stands_beside_a_numpy_that_it_works_with(cuda: str) -> None:
    for found in (of_extra(cuda), pins(LISTS / f"{cuda}.txt")):
        (numba_cuda,) = map(Version, found["numba-cuda"])
        if numba_cuda <= NEWEST_NUMBA_CUDA_WITH_ROW_STACK:
            assert max(map(Version, found["numpy"])) < FIRST_NUMPY_WITHOUT


@pytest.mark.parametrize("path", HASHED, ids=lambda path: path.stem)
def test_every_pin_of_an_installation_has_hashes(path: Path) -> None:
    assert pins(path)
    lines = path.read_text().splitlines()
    for line, following in zip(lines, (*lines[1:], ""), strict=True):
        if _PIN.fullmatch(line):
            assert line.endswith(" \\"), line
            assert _HASH.fullmatch(following), line


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").iterdir()), ids=lambda path: path.stem
)
def test_what_is_installed_has_the_versions_of_the_constraints(path: Path) -> None:
    expected = of_extra("dev" if path.stem == "base" else path.stem)
    for name, versions in pins(path).items():
        assert versions <= expected[name], name


def test_what_the_project_needs_is_in_the_list_that_every_installation_takes() -> None:
    base = pins(ROOT / "requirements/base.txt")
    for requirement in (*needed("all"), *map(Requirement, BUILD_SYSTEM["requires"])):
        assert canonicalize_name(requirement.name) in base


@pytest.mark.parametrize("extra", ["dev", "docs", "trt-test", "llm", "cuda12", "cuda13"])
def test_what_an_extra_needs_is_in_its_list(extra: str) -> None:
    listed = pins(ROOT / "requirements/base.txt", ROOT / f"requirements/{extra}.txt")
    for requirement in needed(extra):
        assert canonicalize_name(requirement.name) in listed


def test_pip_refuses_a_file_with_another_hash(tmp_path: Path) -> None:
    """jinja2's lines of ``base.txt``, and a wheel of that name and version of our own making."""
    text = (ROOT / "requirements/base.txt").read_text()
    found = re.search(r"^jinja2==(\S+) .*\n(?:    --hash=.*\n)+", text, re.MULTILINE)
    assert found is not None
    (tmp_path / "list.txt").write_text(found[0])
    about = f"jinja2-{found[1]}.dist-info"
    with zipfile.ZipFile(tmp_path / f"jinja2-{found[1]}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{about}/METADATA", f"Name: jinja2\nVersion: {found[1]}\n")
    source = ("--no-index", "--find-links", tmp_path, "--dest", tmp_path / "out")
    asked = ("--require-hashes", "-r", tmp_path / "list.txt")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", *source, *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_makefile_installs_nothing_without_pins() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if "-m pip" in line]
    assert [line for line in lines if "--require-hashes" not in line] == [
        "PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps",
        "\t@$(BIN)/python -m pip install --quiet --disable-pip-version-check"
        " -c constraints-peers.txt -e '.[peers]' >&2",
    ]


def test_no_file_says_where_to_fetch() -> None:
    for path in (*ROOT.glob("constraints*.txt"), *HASHED):
        lines = path.read_text().splitlines()
        assert not [line for line in lines if "://" in line or line.startswith("-")], path.name
