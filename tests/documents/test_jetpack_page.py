"""The page of JetPack releases agrees with the tables that the code uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mansard.containers.images.table import read_table
from mansard.core.hardware import jetpack_of

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/jetpack.md").read_text("utf-8")
IMAGES = [
    image
    for image in read_table().images
    if image.serves == "jetson" and not image.name.endswith("-tensorrt")
]


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|\n").split("|")]


def test_each_release_has_its_jetpack() -> None:
    releases, packs = (
        cells(re.findall(rf"^\| {name} \| [35].*$", PAGE, re.MULTILINE)[-1])[1:]
        for name in ("L4T", "JetPack")
    )
    assert len(releases) > 15
    assert {release: jetpack_of(release) for release in releases} == dict(
        zip(releases, packs, strict=True)
    )


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_each_image_has_its_versions(image: object) -> None:
    name, cuda, tensorrt = (getattr(image, field) for field in ("name", "cuda", "tensorrt"))
    (row,) = [cells(line) for line in PAGE.splitlines() if line.endswith(f"| `{name}` |")]
    assert row[2:4] == [cuda, tensorrt]
