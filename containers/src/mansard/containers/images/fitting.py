"""Which image fits a machine, and why: it is there already, or is built after its size was said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mansard.containers.engine import ContainerEngine, EngineFacts, gpu_kind
from mansard.containers.hosts import Host
from mansard.containers.images.building import Order, build_image, ready_image
from mansard.containers.images.pulling import Confirm, Downloads
from mansard.containers.images.table import Image, ImageTable, version_key
from mansard.containers.images.table import Image as Entry
from mansard.core.errors import ContainerError
from mansard.core.records import MachineIdentity
from mansard.measuring.manifest import ContainerImage


class FittingImage(msgspec.Struct, frozen=True):
    """The image that fits a machine, and why, in words."""

    image: Image
    why: str


def choose_image(
    machine: MachineIdentity,
    table: ImageTable,
    *,
    name: str | None = None,
    sm: int | None = None,
    engines: Sequence[str] = (),
) -> FittingImage:
    """The image for ``machine``, or the one of that ``name`` if it fits.

    ``engines``: one that has the first of these, or the next, is taken before those that have
    none. ``sm`` is the card's compute capability where it is known: 75 is 7.5. Raises UsageError
    for a name that is not in the table, ContainerError where nothing fits.
    """
    if name is not None:
        image = table.image(name)
        reason = why_not(image, machine, table, sm)
        if reason is not None:
            raise ContainerError(f"the image {name} is not for this machine: {reason}", fix=_OTHER)
        return FittingImage(image, f"it was asked for, and serves {_purpose(image)}")
    wanted = _kind(machine)
    release = _release(machine) if wanted == "jetson" else None
    _check_refused(release, table)
    candidates = [image for image in table.images if image.serves == wanted]
    fitting = [image for image in candidates if why_not(image, machine, table, sm) is None]
    if not fitting:
        raise _nothing_fits(machine, table, candidates, sm)
    fitting = _with_engine(fitting, engines)
    if fitting[0].engines:
        has = " and ".join(fitting[0].engines)
        return FittingImage(
            fitting[0], f"it has {has} for networks, and serves {_purpose(fitting[0])}"
        )
    if wanted == "card":
        return _for_card(fitting, machine, sm)
    if wanted == "jetson":
        return FittingImage(
            fitting[0], f"the board has L4T {release}, and it serves {_purpose(fitting[0])}"
        )
    reason = "the board is simulated" if machine.is_simulated else "there is no NVIDIA GPU"
    return FittingImage(
        fitting[0], f"{reason}: the kernels run on the CPU ({machine.architecture})"
    )


def _with_engine(fitting: list[Image], engines: Sequence[str]) -> list[Image]:
    """The images with the first of ``engines`` that any has; else those with none of them."""
    for name in engines:
        with_engine = [image for image in fitting if name in image.engines]
        if with_engine:
            return with_engine
    return [image for image in fitting if not image.engines] or fitting


def why_not(
    image: Image, machine: MachineIdentity, table: ImageTable, sm: int | None = None
) -> str | None:
    """Why ``image`` does not fit ``machine``; None if it does."""
    if machine.architecture not in image.architectures:
        return (
            f"it is for {' and '.join(image.architectures)}, the machine has {machine.architecture}"
        )
    if image.serves == "cpu":  # runs everywhere; it is for the CPU alone
        return None
    kind = _kind(machine)
    if kind != image.serves:
        return f"it is for {_purpose(image)}, and this is {_kind_in_words(machine, kind)}"
    if image.serves == "jetson":
        return _why_not_release(image, machine)
    return _why_not_card(image, machine, table, sm)


def _kind(machine: MachineIdentity) -> str:
    """The kind of the table's images that serve this machine."""
    gpu = gpu_kind(machine)
    return "cpu" if gpu == "none" else gpu


def _kind_in_words(machine: MachineIdentity, kind: str) -> str:
    if machine.is_simulated:
        return "a simulated board, measured on the CPU"
    if kind == "jetson":
        return "a Jetson"
    return "a machine with a card" if kind == "card" else "a machine without an NVIDIA GPU"


def _purpose(image: Image) -> str:
    """What an image is for, in words."""
    if image.serves == "jetson":
        return f"L4T {image.l4t_from} up to, not with, {image.l4t_before}"
    return f"cards with CUDA {image.cuda}" if image.serves == "card" else "every CPU"


def _release(machine: MachineIdentity) -> str:
    board = machine.board
    if board is None or board.l4t is None:
        raise ContainerError(
            "the board's release of L4T is unknown, so no image can be chosen",
            where="/etc/nv_tegra_release",
            fix="install nvidia-l4t-core, or measure without a container",
        )
    return board.l4t


def _check_refused(release: str | None, table: ImageTable) -> None:
    for refused in table.refused if release is not None else ():
        if _is_within(str(release), refused.l4t_from, refused.l4t_before):
            raise ContainerError(
                f"no image serves L4T {release}: {refused.reason}",
                fix="measure without a container, or on a newer JetPack",
            )


def _is_within(release: str, first: str | None, before: str | None) -> bool:
    key = version_key(release)
    return version_key(first or "0") <= key < version_key(before or "9999")


def _why_not_release(image: Image, machine: MachineIdentity) -> str | None:
    release = _release(machine)
    if _is_within(release, image.l4t_from, image.l4t_before):
        return None
    return f"it serves {_purpose(image)}, and the board has L4T {release}"


def _why_not_card(
    image: Image, machine: MachineIdentity, table: ImageTable, sm: int | None
) -> str | None:
    needed = table.drivers.get(version_key(image.cuda or "0")[0])
    if needed and machine.driver and version_key(machine.driver) < version_key(needed):
        return (
            f"its CUDA {image.cuda} needs NVIDIA's driver {needed} or newer, "
            f"and {machine.driver} is loaded"
        )
    if sm is None:
        return None
    if image.sm_from is not None and sm < image.sm_from:
        return f"its CUDA {image.cuda} no longer runs compute capability {sm // 10}.{sm % 10}"
    if image.sm_to is not None and sm > image.sm_to:
        return f"its CUDA {image.cuda} does not know compute capability {sm // 10}.{sm % 10} yet"
    return None


def _for_card(fitting: list[Image], machine: MachineIdentity, sm: int | None) -> FittingImage:
    """The newest CUDA where the card is known to run it, else the one that serves most cards."""
    driver = f"driver {machine.driver}" if machine.driver else "a driver of unknown version"
    if sm is not None:
        newest = max(fitting, key=lambda image: version_key(image.cuda or "0"))
        return FittingImage(
            newest,
            f"CUDA {newest.cuda} is the newest that {driver} and compute capability "
            f"{sm // 10}.{sm % 10} run",
        )
    widest = min(fitting, key=lambda image: (image.sm_from or 0, version_key(image.cuda or "0")))
    return FittingImage(
        widest,
        f"{driver} runs CUDA {widest.cuda}, which serves most cards; this one's compute "
        "capability is unknown",
    )


def _nothing_fits(
    machine: MachineIdentity, table: ImageTable, candidates: list[Image], sm: int | None
) -> ContainerError:
    reasons = "; ".join(
        f"{image.name}: {why_not(image, machine, table, sm)}" for image in candidates
    )
    return ContainerError(
        f"no image fits {machine.name}: {reasons or 'the table has none for such a machine'}",
        fix="update the driver or JetPack, or describe an image of your own in images.toml",
    )


# Lines of the builder and of pip that tell a reader nothing.
_NOISE = re.compile(
    r" *---> |Removing intermediate|Ignoring |Looking in links|Processing |Successfully |"
    r"Step [0-9]+/[0-9]+ : (?:ARG|ENV|LABEL|CMD|ENTRYPOINT|WORKDIR|USER)\b"
)


def ensure_image(
    engine: ContainerEngine,
    entry: Entry,
    *,
    is_offline: bool = False,
    is_agreed: bool = False,
    say: Callable[[str], None] = lambda _: None,
    ask: Callable[[str], bool] | None = None,
    wheels: Path | None = None,
) -> ContainerImage:
    """Name and digest of the image of ``entry``, which is built where it is not there.

    Its downloads are said, and asked for by ``ask`` where that is given and nothing is
    ``is_agreed`` yet. Offline it is only looked for, or built from what is here already.
    Raises ContainerError, StorageError, InputError, or UsageError for a no.
    """
    ready = ready_image(engine, entry)
    if ready is not None:
        return ContainerImage(ready.tag, ready.digest)

    confirm = confirming(say, None if is_agreed else ask)
    order = Order(wheels=wheels, offline=is_offline, confirm=confirm, tell=quietly(say))
    built = build_image(engine, entry, order)
    say(f"built {built.tag}: {built.size_bytes / 1e6:.0f} MB in {built.build_s:.0f} s")
    return ContainerImage(built.tag, built.digest)


def confirming(say: Callable[[str], None], ask: Callable[[str], bool] | None) -> Confirm:
    """Says what would be downloaded, and asks where a question can be answered."""

    def confirm(wanted: Downloads) -> bool:
        say(f"to download: {wanted.in_words}")
        return ask is None or ask("Download it?")

    return confirm


def quietly(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` without the uninformative lines of a build."""

    def tell(line: str) -> None:
        if not _NOISE.match(line):
            say(line)

    return tell


# The kernel of each major release of L4T. Source: NVIDIA's release notes of Jetson Linux 35
# (JetPack 5), 36 (JetPack 6) and 38 (JetPack 7); 32 (JetPack 4) has 4.9.
_KERNELS = {"5.10": 35, "5.15": 36, "6.8": 38}


def controller_image(
    facts: EngineFacts,
    table: ImageTable,
    host: Host,
    is_ready: Callable[[Entry], bool],
    name: str | None = None,
) -> Entry:
    """The image for the controller of ``host``, chosen before it is known which board it is.

    Any image of ours does, for the controller sets clocks and runs no kernel. So one that is
    there is taken; else the one that will most likely be measured in, so that the board needs
    one only. Raises UsageError for a name that is not there.
    ``name`` or the host's own is taken where one is given. ``is_ready`` tells whether an image
    is on the board already. Raises ContainerError where none is for its processor.
    """
    wanted = name or host.image
    if wanted is not None:
        return table.image(wanted)
    fitting = [image for image in table.images if _fits(image, facts)]
    if not fitting:
        raise ContainerError(
            f"no image is for its processor, {facts.architecture or 'which it does not name'}",
            where=host.name,
            fix="describe one in images.toml",
        )
    for image in fitting:
        if is_ready(image):
            return image
    likely = None if host.is_simulated else _likely(facts, fitting)
    return likely or next((fitted for fitted in fitting if fitted.serves == "cpu"), fitting[0])


def _fits(image: Entry, facts: EngineFacts) -> bool:
    return facts.architecture in image.architectures


def _likely(facts: EngineFacts, fitting: list[Entry]) -> Entry | None:
    """For a Jetson the newest image of the major L4T release, by its kernel."""
    if "tegra" not in facts.kernel:
        return None
    major = _KERNELS.get(".".join(facts.kernel.split(".")[:2]))
    ours = [
        image
        for image in fitting
        if not image.engines
        and image.l4t_from is not None
        and version_key(image.l4t_from)[0] == major
    ]
    return max(ours, key=lambda image: version_key(image.l4t_from or "0"), default=None)


_OTHER = "leave out --image: the one that fits is chosen; or describe your own in images.toml"
