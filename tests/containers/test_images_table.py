"""The table of images: what ships, what a user may change, and what junk is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.containers.images.building import RECIPES, library_lines
from mansard.containers.images.pulling import LIBRARIES_BYTES
from mansard.containers.images.table import (
    Image,
    own_tables,
    parse_reference,
    read_table,
    version_key,
)
from mansard.core.errors import InputError, StorageError, UsageError

ROOT = Path(__file__).resolve().parents[2]
TABLE = read_table()
IMAGES = {image.name: image for image in TABLE.images}


def written(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text)
    return path


def test_there_is_an_image_for_every_kind_of_machine() -> None:
    served = {(image.serves, image.cuda and image.cuda.partition(".")[0]) for image in TABLE.images}
    assert served == {
        ("jetson", "11"),
        ("jetson", "12"),
        ("jetson", "13"),
        ("card", "12"),
        ("card", "13"),
        ("cpu", None),
    }


@pytest.mark.parametrize("image", TABLE.images, ids=lambda image: image.name)
def test_every_image_has_a_recipe_libraries_and_a_source(image: Image) -> None:
    assert (RECIPES / image.recipe / "Dockerfile").is_file()
    assert image.libraries in LIBRARIES_BYTES
    assert image.source
    # The CUDA that a base is named after is the one that the libraries are for.
    wanted = "cpu" if image.cuda is None else f"cuda{image.cuda.partition('.')[0]}"
    assert image.libraries == wanted
    if image.cuda is not None and not image.engines:  # those are named after a release
        assert f":{image.cuda}." in image.base


def test_ubuntu_images_have_the_python_of_their_ubuntu() -> None:
    for image in TABLE.images:
        if "ubuntu24.04" in image.base or "-py3" in image.base:
            assert (image.recipe, image.python) == ("ubuntu", "3.12")
        elif image.recipe == "ubuntu":  # l4t-cuda of r36 is Ubuntu 22.04
            assert image.python == "3.10"


def test_bases_have_the_digests_that_public_projects_pin() -> None:
    """The others are fixed by a tag of one release, never by one that moves."""
    pinned = {name for name, image in IMAGES.items() if "@sha256:" in image.base}
    assert pinned == {
        *("jetpack-5-tensorrt", "jetpack-6.0-tensorrt", "jetpack-6.1-tensorrt"),
        *("jetpack-7.0", "card-12", "card-13", "cpu"),
    }
    for image in IMAGES.values():
        reference = parse_reference(image.base)
        assert reference is not None
        assert re.search(r"\d+\.\d+", reference.tag), image.base


def test_the_libraries_are_those_that_the_project_is_tested_with() -> None:
    tested = pins((ROOT / "constraints.txt").read_text())
    for path in sorted((RECIPES / "lists").iterdir()):
        listed = pins(path.read_text())
        assert {"numpy", "numba", "llvmlite", "msgspec", "onnxruntime"} <= listed.keys()
        for name in listed.keys() & tested.keys():
            assert listed[name] == tested[name], f"{path.name}: {name}"


def pins(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        match = re.match(r"([a-z0-9-]+)==(\S+)", line)
        if match:
            found.setdefault(match[1], set()).add(match[2])
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("jetpack-6.1", "numpy==2.2.6"), ("cpu", "numpy==2.4.6"), ("card-13", "cupy-cuda13x==14.2.0")],
)
def test_the_list_of_an_image_is_for_its_python(name: str, expected: str) -> None:
    lines = library_lines(IMAGES[name])
    assert expected in lines
    assert sum(line.startswith("numpy==") for line in lines) == 1
    assert not any(";" in line for line in lines)


def test_a_file_changes_single_lines_of_an_image(tmp_path: Path) -> None:
    path = written(tmp_path, '[images."jetpack-6.1"]\nbase = "mirror.local:5000/l4t-cuda:1"\n')
    table = read_table([path])
    image = table.image("jetpack-6.1")
    assert image.base == "mirror.local:5000/l4t-cuda:1"
    assert image.python == "3.10"
    assert table.images[0] == image  # the user's come first
    assert len(table.images) == len(TABLE.images)


NEW = """[images.mine]
base = "docker.io/library/python:3.11-slim"
serves = "cpu"
architectures = ["x86_64"]
python = "3.11"
recipe = "plain"
libraries = "cpu"
"""


def test_a_file_adds_an_image_that_comes_first(tmp_path: Path) -> None:
    path = written(tmp_path, NEW)
    table = read_table([path])
    assert table.images[0].name == "mine"
    assert table.images[0].source == str(path)
    assert table.images[1:] == TABLE.images


def test_of_two_files_the_last_one_is_the_strongest(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(NEW)
    second.write_text('[images.mine]\nbase = "other:1"\n[images.cpu]\nbase = "third:1"\n')
    table = read_table([first, second])
    assert [image.name for image in table.images[:2]] == ["mine", "cpu"]
    assert (table.images[0].base, table.images[0].python) == ("other:1", "3.11")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("junk", "is not TOML"),
        ("[images.mine]\nbase =", "is not TOML"),
        ("[imges.mine]\n", "'imges' is nothing that a table of images has"),
        ('images = "cpu"\n', "'images' is nothing"),
        ("[images]\nmine = 5\n", "is not a table of an image's lines"),
        ("[images.mine]\n", "missing required field"),
        ("[images.cpu]\nbases = 5\n", "unknown field `bases`"),
        ("[images.cpu]\nbase = 5\n", r"Expected `str`, got `int` - at `\$.base`"),
        ('[images.cpu]\nname = "other"\n', "is not a table of an image's lines"),
        ('[images.cpu]\nrecipe = "debian"\n', "Invalid enum value 'debian'"),
        ('[images.cpu]\npython = "3.8"\n', "Python must be 3.10 or newer"),
        ('[images.cpu]\npython = "three"\n', "python is not a version: 'three'"),
        ("[images.cpu]\narchitectures = []\n", "serves no architecture"),
        ('[images.cpu]\nserves = "jetson"\n', "needs l4t_from and l4t_before"),
        ('[images.cpu]\nserves = "card"\n', "needs its cuda"),
        ('[images."a b"]\n', "is not a name for an image"),
        (f"[images.{'a' * 65}]\n", "is not a name for an image"),
        ("drivers = 5\n", "'drivers' is nothing"),
        ('[images.cpu]\nbase = "x"\n' + "#" * (1 << 20), "is too long"),
    ],
)
def test_junk_is_named_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=words) as raised:
        read_table([path])
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "--privileged",
        "a b",
        "a\nRUN id",
        "../x",
        "a//b",
        "/a",
        "a/",
        "A/b",
        "a:",
        "a:b c",
        "a@sha256:12",
        "a:" + "t" * 129,
        "a\x00b",
        "http://a/b",
        "a" * 600,
        "ä",
        "a;b",
        "$(id)",
        "host:port/a",
    ],
)
def test_hostile_names_of_images_are_refused(tmp_path: Path, name: str) -> None:
    assert parse_reference(name) is None
    path = written(tmp_path, f"[images.cpu]\nbase = {quoted(name)}\n")
    with pytest.raises(InputError, match=r"is not a name of an image|is not TOML") as raised:
        read_table([path])
    assert "\n" not in str(raised.value)


def quoted(text: str) -> str:
    escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\' else c for c in text)
    return f'"{escaped}"'


@pytest.mark.parametrize(
    ("name", "host", "path", "tag"),
    [
        ("python", "docker.io", "library/python", "latest"),
        ("python:3.12-slim", "docker.io", "library/python", "3.12-slim"),
        ("team/image", "docker.io", "team/image", "latest"),
        ("nvcr.io/nvidia/cuda:12.8.1-base", "nvcr.io", "nvidia/cuda", "12.8.1-base"),
        ("localhost/x", "localhost", "x", "latest"),
        ("reg.local:5000/a/b/c:1", "reg.local:5000", "a/b/c", "1"),
    ],
)
def test_names_are_taken_apart_as_docker_does(name: str, host: str, path: str, tag: str) -> None:
    found = parse_reference(name)
    assert found is not None
    assert (found.host, found.path, found.tag) == (host, path, tag)


@given(st.text(max_size=80))
def test_no_text_makes_a_name_that_could_be_an_option_or_two_lines(text: str) -> None:
    found = parse_reference(text)
    if found is not None:
        assert not text.startswith("-")
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(" \"'`$;&|<>(){}\\")


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        read_table([tmp_path / "none.toml"])


def test_an_image_that_is_not_in_the_table() -> None:
    with pytest.raises(UsageError, match="there is no image 'none'; there are jetpack-5, "):
        TABLE.image("none")


def test_own_tables_are_those_of_the_settings_and_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    assert own_tables() == ()
    settings = tmp_path / "settings/mansard/images.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("")
    assert own_tables() == (settings,)
    Path("images.toml").write_text("")  # the folder may be another person's
    assert own_tables() == (settings,)
    named = tmp_path / "named.toml"
    assert own_tables(named) == (settings, named)
    monkeypatch.setenv("XDG_CONFIG_HOME", "settings")  # a relative one does not count
    assert own_tables(home=tmp_path) == ()


def test_versions_compare_by_their_numbers() -> None:
    assert version_key("36.4.0") == version_key("36.4")
    assert version_key("36.10") > version_key("36.4.7")
    assert version_key("36.4") > version_key("36")
