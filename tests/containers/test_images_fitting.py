"""Which image fits which machine, and what is said where none does."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.containers.images.fitting import choose_image, why_not
from mansard.containers.images.table import read_table, version_key
from mansard.core.errors import ContainerError, UsageError
from mansard.core.hardware.module import _JETPACKS
from mansard.core.records import Board, MachineIdentity

TABLE = read_table()
PLAIN = MachineIdentity(
    kind="cpu",
    name="a machine",
    is_simulated=False,
    architecture="x86_64",
    cpus=(0,),
    caches=(),
    memory_bytes=1 << 30,
    operating_system="Linux",
    kernel_release="6.1",
    machine_hash="0" * 16,
    accelerators=(),
    board=None,
    cuda=None,
    driver=None,
    unknown={"board": "no Jetson", "cuda": "none", "driver": "none"},
)


def jetson(l4t: str | None, *, is_simulated: bool = False) -> MachineIdentity:
    unknown = {} if l4t else {"l4t": "no file"}
    board = Board(
        module="Orin",
        part_number="p3701-0005",
        soc="tegra234",
        l4t=l4t,
        jetpack=None,
        unknown={"jetpack": "not looked up", **unknown},
    )
    return msgspec.structs.replace(
        PLAIN,
        kind="jetson",
        architecture="aarch64",
        is_simulated=is_simulated,
        board=board,
        unknown={"cuda": "none", "driver": "none"},
    )


def card(driver: str | None, architecture: str = "x86_64") -> MachineIdentity:
    unknown = {"board": "no Jetson", "cuda": "none"} | ({} if driver else {"driver": "none"})
    return msgspec.structs.replace(
        PLAIN,
        accelerators=("NVIDIA card",),
        architecture=architecture,
        driver=driver,
        unknown=unknown,
    )


@pytest.mark.parametrize(
    ("l4t", "name"),
    [
        ("35.1.0", "jetpack-5"),
        ("35.4.1", "jetpack-5"),
        ("35.6.2", "jetpack-5"),
        ("36.2.0", "jetpack-6.0"),
        ("36.3.0", "jetpack-6.0"),
        ("36.4.0", "jetpack-6.1"),
        ("36.4.7", "jetpack-6.1"),
        ("36.5.0", "jetpack-6.1"),
        ("38.2.0", "jetpack-7.0"),
        ("38.4", "jetpack-7.0"),
        ("39.2.1", "jetpack-7.2"),
    ],
)
def test_the_image_of_a_release(l4t: str, name: str) -> None:
    fit = choose_image(jetson(l4t), TABLE)
    assert fit.image.name == name
    assert f"the board has L4T {l4t}" in fit.why


@pytest.mark.parametrize("l4t", sorted(_JETPACKS))
def test_every_known_release_has_one_image_or_a_reason(l4t: str) -> None:
    machine = jetson(l4t)
    fitting = [
        image.name
        for image in TABLE.images
        if image.serves == "jetson" and why_not(image, machine, TABLE) is None
        if not image.engines
    ]
    if version_key(l4t) < (35,):
        with pytest.raises(ContainerError, match=f"no image serves L4T {l4t}: "):
            choose_image(machine, TABLE)
    else:
        assert fitting == [choose_image(machine, TABLE).image.name]


@pytest.mark.parametrize("l4t", [one for one in sorted(_JETPACKS) if version_key(one) >= (35,)])
def test_every_known_release_has_one_image_with_tensorrt(l4t: str) -> None:
    machine = jetson(l4t)
    plain = choose_image(machine, TABLE).image
    fit = choose_image(machine, TABLE, engines=("tensorrt", "trtexec"))
    assert fit.image.name == f"{plain.name}-tensorrt"
    assert fit.image.tensorrt == plain.tensorrt
    assert choose_image(machine, TABLE, engines=("trtexec",)).image == fit.image
    # The bindings of JetPack 5 are for Python 3.8.
    has_bindings = "tensorrt" in fit.image.engines
    assert has_bindings == (version_key(l4t) >= (36,))
    assert f"it has {' and '.join(fit.image.engines)} for networks" in fit.why


def test_where_no_image_has_the_engine_the_plain_one_is_taken() -> None:
    assert choose_image(PLAIN, TABLE, engines=("tensorrt", "trtexec")).image.name == "cpu"
    assert choose_image(jetson("35.4.1"), TABLE, engines=("tensorrt",)).image.name == "jetpack-5"


def test_jetpack_4_is_refused_with_the_reason() -> None:
    with pytest.raises(ContainerError, match=r"L4T 32\.7\.4: JetPack 4 and older: .*Python 3\.6"):
        choose_image(jetson("32.7.4"), TABLE)


def test_a_release_from_the_future_names_what_there_is() -> None:
    with pytest.raises(ContainerError, match=r"jetpack-7\.2: it serves L4T 39 .* has L4T 41\.1"):
        choose_image(jetson("41.1"), TABLE)


def test_a_board_that_does_not_tell_its_release() -> None:
    with pytest.raises(ContainerError, match="release of L4T is unknown"):
        choose_image(jetson(None), TABLE)


@pytest.mark.parametrize(
    ("driver", "sm", "name"),
    [
        ("525.60.13", None, "card-12"),
        ("550.54.14", 90, "card-12"),
        ("580.65.06", 90, "card-13"),
        ("580.65.06", 70, "card-12"),  # CUDA 13 has no Volta any more
        ("590.10", 121, "card-13"),  # CUDA 12.8 does not know it yet
        ("590.10", None, "card-12"),  # serves most cards
        (None, None, "card-12"),
    ],
)
def test_the_image_of_a_card(driver: str | None, sm: int | None, name: str) -> None:
    assert choose_image(card(driver), TABLE, sm=sm).image.name == name


def test_arm_servers_have_images() -> None:
    assert choose_image(card("580.65.06", "aarch64"), TABLE, sm=90).image.name == "card-13"


def test_a_driver_that_is_too_old_is_named_with_the_one_that_is_needed() -> None:
    with pytest.raises(ContainerError) as raised:
        choose_image(card("470.82.01"), TABLE)
    said = str(raised.value)
    assert "card-12: its CUDA 12.8 needs NVIDIA's driver 525.60.13 or newer" in said
    assert "470.82.01 is loaded" in said
    assert "update the driver" in said


def test_a_card_that_is_newer_than_the_cuda_of_its_driver() -> None:
    assert choose_image(card("550.54.14"), TABLE, sm=120).image.name == "card-12"  # its last
    for sm in (121, 130):
        with pytest.raises(ContainerError, match=r"does not know compute capability 1[23]"):
            choose_image(card("550.54.14"), TABLE, sm=sm)


def test_a_card_that_no_cuda_here_runs() -> None:
    with pytest.raises(ContainerError, match=r"no longer runs compute capability 3\.5"):
        choose_image(card("525.60.13"), TABLE, sm=35)


def test_without_a_gpu_and_on_simulated_boards_it_is_the_cpu() -> None:
    assert choose_image(PLAIN, TABLE).image.name == "cpu"
    fit = choose_image(jetson("36.4.0", is_simulated=True), TABLE)
    assert fit.image.name == "cpu"
    assert "simulated" in fit.why
    # A simulated board's old release matters to nobody: its kernels run here.
    assert choose_image(jetson("32.7.1", is_simulated=True), TABLE).image.name == "cpu"


@pytest.mark.parametrize(
    ("machine", "name", "words"),
    [
        (jetson("36.4.0"), "jetpack-5", "it serves L4T 35 up to, not with, 36"),
        (jetson("36.4.0"), "card-12", "it is for cards with CUDA 12.8, and this is a Jetson"),
        (PLAIN, "jetpack-6.1", "it is for aarch64, the machine has x86_64"),
        (PLAIN, "card-12", "this is a machine without an NVIDIA GPU"),
        (card("550.1.1"), "card-13", "its CUDA 13.0 needs NVIDIA's driver 580.65.06"),
    ],
)
def test_an_image_for_another_machine_is_refused(
    machine: MachineIdentity, name: str, words: str
) -> None:
    with pytest.raises(ContainerError, match="is not for this machine") as raised:
        choose_image(machine, TABLE, name=name)
    assert words in str(raised.value)


def test_the_image_that_was_asked_for_is_taken_where_it_fits() -> None:
    fit = choose_image(jetson("36.4.0"), TABLE, name="jetpack-6.1")
    assert fit.image.name == "jetpack-6.1"
    assert choose_image(card("590.10"), TABLE, name="cpu").image.name == "cpu"
    with pytest.raises(UsageError, match="there is no image"):
        choose_image(PLAIN, TABLE, name="none")


releases = st.lists(st.integers(0, 60), min_size=1, max_size=4).map(
    lambda numbers: ".".join(map(str, numbers))
)


@given(releases)
def test_no_release_fits_two_images(l4t: str) -> None:
    machine = jetson(l4t)
    served = [
        i
        for i in TABLE.images
        if i.serves == "jetson" and not i.engines and not why_not(i, machine, TABLE)
    ]
    refused = [
        r
        for r in TABLE.refused
        if version_key(r.l4t_from) <= version_key(l4t) < version_key(r.l4t_before)
    ]
    assert len(served) + len(refused) <= 1


@given(st.integers(400, 700), st.integers(30, 130))
def test_what_is_chosen_fits_and_a_newer_driver_never_fits_less(driver: int, sm: int) -> None:
    def fitting(version: int) -> set[str]:
        machine = card(f"{version}.10.01")
        return {
            i.name
            for i in TABLE.images
            if i.serves == "card" and why_not(i, machine, TABLE, sm) is None
        }

    assert fitting(driver) <= fitting(driver + 1)
    if fitting(driver):
        fit = choose_image(card(f"{driver}.10.01"), TABLE, sm=sm)
        assert fit.image.name in fitting(driver)
