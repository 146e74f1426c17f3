"""Which image the controller of a board runs in, before it is known which board it is."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec
import pytest

from mansard.containers.engine import EngineFacts
from mansard.containers.hosts import Host
from mansard.containers.images.fitting import controller_image
from mansard.containers.images.table import Image, read_table
from mansard.core.errors import ContainerError, UsageError

TABLE = read_table()
HOST = Host(name="orin", ssh="orin")
ORIN = EngineFacts(
    name="Docker", version="27.5.1", api_version="1.47", architecture="aarch64",
    kernel="5.15.148-tegra", runtimes=("nvidia", "runc"), cdi_folders=(), cdi_devices=None,
    is_rootless=False, cgroup_version="2", storage="overlay2", data_root="/var/lib/docker",
    is_local=False,
)  # fmt: skip


def nothing(image: Image) -> bool:
    return False


def chosen(facts: EngineFacts, host: Host = HOST, **more: object) -> Image:
    return controller_image(facts, TABLE, host, nothing, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "first_release"),
    [("5.10.216-tegra", "35"), ("5.15.148-tegra", "36.4"), ("6.8.12-tegra", "38")],
)
def test_an_empty_jetson_gets_the_one_of_its_kernel(kernel: str, first_release: str) -> None:
    image = chosen(msgspec.structs.replace(ORIN, kernel=kernel))
    assert (image.serves, image.l4t_from) == ("jetson", first_release)


@pytest.mark.parametrize("kernel", ["4.9.337-tegra", "6.8.0-45-generic", "", "tegra"])
def test_other_machines_get_the_one_that_runs_everywhere(kernel: str) -> None:
    assert chosen(msgspec.structs.replace(ORIN, kernel=kernel)).serves == "cpu"


def test_a_simulated_board_gets_the_one_that_runs_everywhere() -> None:
    simulated = Host(name="bench", root=PurePosixPath("/srv/agx-orin"))
    assert chosen(ORIN, simulated).serves == "cpu"


def test_one_that_is_there_is_taken() -> None:
    there = TABLE.image("card-12")
    assert controller_image(ORIN, TABLE, HOST, lambda image: image == there) == there


def test_a_name_is_taken_at_its_word() -> None:
    assert chosen(ORIN, msgspec.structs.replace(HOST, image="jetpack-7.0")).name == "jetpack-7.0"
    assert chosen(ORIN, name="cpu").name == "cpu"
    with pytest.raises(UsageError, match="there is no image 'mine'"):
        chosen(ORIN, name="mine")


def test_a_processor_without_image_is_refused() -> None:
    with pytest.raises(ContainerError, match="orin: no image is for its processor, riscv64"):
        chosen(msgspec.structs.replace(ORIN, architecture="riscv64"))
