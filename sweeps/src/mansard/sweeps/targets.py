"""Where a board is measured: in this process, in a container on it, or on another host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from mansard.containers.board_controller import board_controller
from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.hosts import Host, on_board
from mansard.containers.images.building import ready_image
from mansard.containers.images.fitting import choose_image, controller_image, ensure_image
from mansard.containers.images.table import Image as Entry
from mansard.containers.images.table import user_table
from mansard.containers.launch import stop_containers
from mansard.containers.measurer import (
    ContainerMeasurer,
    engine_probe_in_container,
    probe_in_container,
)
from mansard.containers.settings import ContainerLaunch, launch_for
from mansard.containers.tunnel import open_tunnel
from mansard.containers.volumes import FilesVolume, files_volume, outputs_volume
from mansard.core.errors import DeviceError, MansardError, UsageError
from mansard.core.storage.leftovers import temporary_folder
from mansard.core.text import listed
from mansard.device.cards import SeenCards, cuda_extra, see_cards
from mansard.device.meters.finding import find_meters
from mansard.inference.engine_files import EngineFiles, FolderOutputs
from mansard.inference.engines import find_engine
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.measurer import LocalMeasurer
from mansard.microbench.plan import Probe, probe
from mansard.sweeps.reporter import ProgressDisplay, Reporter

if TYPE_CHECKING:
    from mansard.core.records import MachineIdentity, Processor
    from mansard.device.controller import BoardController
    from mansard.device.controller.remote import RemoteController
    from mansard.inference.engines.engine import EngineProbe
    from mansard.measuring.events import Event, Measurer
    from mansard.measuring.kind import Job
    from mansard.measuring.manifest import ContainerImage


class WantedImage(msgspec.Struct, frozen=True, kw_only=True):
    """Which image is asked for, and how it may be had."""

    name: str | None = None  # None: the one that fits the machine
    table: Path | None = None  # TOML file of the user's, over ours
    is_offline: bool = False  # neither pull nor build
    engine: str | None = None  # address; None: the first that answers
    engines: tuple[str, ...] = ()  # of networks: an image with the first available


class BenchTarget(Protocol):
    """A board and the means to measure on it; ``image`` is that of its container."""

    @property
    def controller(self) -> BoardController:
        """What identifies and changes the board."""
        ...

    @property
    def image(self) -> ContainerImage | None:
        """The container image that kernels run in; None where there is none."""
        ...

    def probe(self, processor: Processor) -> Probe:
        """What there is to measure ``processor`` with; raises where nothing can be asked."""
        ...

    def seen_cards(self) -> SeenCards:
        """NVIDIA's cards where no GPU can be measured: those that a library would bring back."""
        ...

    def engine_probe(self, engine: str) -> EngineProbe:
        """What there is to run networks with on ``engine``; raises where nothing can be asked."""
        ...

    def send(self, files: Path, reporter: Reporter) -> None:
        """Have the files of a folder here where jobs that name them are measured.

        What is there already is not sent again. It is done before a mode is set: gigabytes may
        take hours.
        """
        ...

    def measurer(self, files: Path | None = None) -> Measurer:
        """What measures a job, in the mode that the board is in then.

        ``files``: folder here of the files that the job names.
        """
        ...

    def builder(self, files: Path, engine_files: EngineFiles) -> Measurer:
        """What does a job of builds and adds to ``engine_files``; ``files`` as above."""
        ...


class StoppableTarget(BenchTarget, Protocol):
    """A board elsewhere."""

    def stop(self) -> None:
        """End what runs on it and have it put back; for another thread than the one that waits."""
        ...


class LocalTarget:
    """This machine, or a simulated board beside it, measured in this process."""

    image = None

    def __init__(self, root: Path, controller: BoardController) -> None:
        self._root = root
        self.controller = controller

    def probe(self, processor: Processor) -> Probe:
        """What this process has."""
        return probe(processor)

    def seen_cards(self) -> SeenCards:
        """Those that this process sees."""
        return see_cards(self._root)

    def engine_probe(self, engine: str) -> EngineProbe:
        """What this process has; raises UsageError for an unknown engine."""
        return find_engine(engine).probe()

    def send(self, files: Path, reporter: Reporter) -> None:
        """Nothing: this process reads them where they are."""

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer with this machine's meters; what runs files may crash, so it is guarded."""
        if files is not None:
            return GuardedMeasurer(self._root, files)

        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(meters=meters, root=self._root)

    def builder(self, files: Path, engine_files: EngineFiles) -> Measurer:
        """Builds in a process of its own, for a builder may crash."""

        def build(job: Job) -> Iterator[Event]:
            with temporary_folder(engine_files.make()) as folder:
                measurer = GuardedMeasurer(self._root, files, outputs=folder)
                yield from engine_files.building(measurer, FolderOutputs(folder))(job)

        return build


class ContainerTarget:
    """A board whose kernels run in a container, and whose modes are the controller's.

    ``files`` is filled with what a job names. ``end`` ends the controller of a board elsewhere,
    from another thread: the board is put back.
    """

    def __init__(
        self,
        controller: BoardController,
        engine: ContainerEngine,
        image: ContainerImage,
        machine: MachineIdentity,
        root: Path,
        files: FilesVolume,
        *,
        end: Callable[[], object] = lambda: None,
    ) -> None:
        self.controller = controller
        self.image = image
        self._end = end
        self._engine = engine
        self._machine = machine
        self._root = root
        self._files = files
        self._processor: Processor = "cpu"

    def stop(self) -> None:
        """Stop its measuring containers, then its controller."""
        try:
            stop_containers(self._engine.address)
        finally:
            self._end()

    def probe(self, processor: Processor) -> Probe:
        """What a container has; raises ContainerError, also where its GPU cannot be used."""
        probe = probe_in_container(self._engine, self._launch(processor), processor)
        self._processor = processor
        return probe

    def seen_cards(self) -> SeenCards:
        """No cards: ``probe`` raises where the container's GPU cannot be used."""
        return SeenCards((), ())

    def engine_probe(self, engine: str) -> EngineProbe:
        """What a container has, started as the last probe was."""
        return engine_probe_in_container(self._engine, self._launch(self._processor), engine)

    def send(self, files: Path, reporter: Reporter) -> None:
        """Send files that are missing in the volume; raises StorageError, as for a full disk."""
        with reporter.progress("Sending files, in MB") as progress:
            self._files.fill(self.image.digest, files, _Sending(progress))

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer in a container of its own, with what the last probe was for."""
        launch = self._launch(self._processor)
        if files is not None:
            volume = self._files.fill(self.image.digest, files)
            launch = msgspec.structs.replace(launch, files=volume)
        return ContainerMeasurer(self._engine, launch, check=self.controller.check)

    def builder(self, files: Path, engine_files: EngineFiles) -> Measurer:
        """Builds in a container that may write to a volume of its own, and ends with its job."""

        def build(job: Job) -> Iterator[Event]:
            volume = self._files.fill(self.image.digest, files)
            with outputs_volume(self._engine, self.image.digest) as outputs:
                launch = msgspec.structs.replace(
                    self._launch(self._processor), files=volume, outputs=outputs.name
                )
                measurer = ContainerMeasurer(self._engine, launch, check=self.controller.check)
                yield from engine_files.building(measurer, outputs)(job)

        return build

    def _launch(self, processor: Processor) -> ContainerLaunch:
        return launch_for(
            self._engine, self._machine, self.image.digest, board=self._root, processor=processor
        )


class _Sending:
    """Shows how much of some files is sent, in megabytes, four times a second."""

    def __init__(self, progress: ProgressDisplay) -> None:
        self._progress = progress
        self._first: tuple[float, int] | None = None  # time and bytes of the first call
        self._next_s = 0.0

    def __call__(self, n_done: int, n_all: int) -> None:
        now_s = time.monotonic()
        # Before it files are hashed, which says nothing of the speed of sending.
        start_s, n_first = self._first = self._first or (now_s, n_done)
        if now_s < self._next_s and n_done < n_all:
            return
        self._next_s = now_s + 0.25
        n_since = n_done - n_first
        remaining_s = (now_s - start_s) * (n_all - n_done) / n_since if n_since else None
        self._progress.update(n_done // 10**6, n_all // 10**6, remaining_s, "sent")


@contextmanager
def container_target(
    controller: BoardController, root: Path, wanted: WantedImage, reporter: Reporter
) -> Iterator[ContainerTarget]:
    """The board of ``controller`` with its engine and image; ``root`` as the engine's host has it.

    Raises ContainerError where there is no engine, or no image and none can be built.
    """
    with connect(wanted.engine) as engine, files_volume(engine) as files:
        machine = controller.identify()
        image = _find_image(engine, machine, wanted, reporter)
        # The engine knows no present folder.
        yield ContainerTarget(controller, engine, image, machine, root.resolve(), files)


@contextmanager
def remote_target(host: Host, wanted: WantedImage, reporter: Reporter) -> Iterator[ContainerTarget]:
    """The board of ``host``, until the end of this; it is put back by its own controller.

    Which image fits the board is not known before its controller has looked: it runs in one that
    is there, or that most likely fits. Raises ContainerError, and what is wrong with the board.
    """
    with ExitStack() as stack:
        stack.enter_context(remedies_of(host))
        engine = stack.enter_context(_remote_engine(host))
        controller = stack.enter_context(_controller_on(engine, host, wanted, reporter))
        of_host = wanted if host.image is None else msgspec.structs.replace(wanted, name=host.image)
        machine = controller.identify()
        image = _find_image(engine, machine, of_host, reporter)
        files = stack.enter_context(files_volume(engine))
        root, end = Path(host.root), controller.end
        yield ContainerTarget(controller, engine, image, machine, root, files, end=end)


@contextmanager
def controller_in_container(
    host: Host, wanted: WantedImage, reporter: Reporter
) -> Iterator[RemoteController]:
    """The controller of the board ``host`` in a container over there, as ``remote_target`` has it.

    Raises ContainerError, and what is wrong with the board.
    """
    with (
        _remote_engine(host) as engine,
        _controller_on(engine, host, wanted, reporter) as controller,
    ):
        yield controller


def check_host(host: Host) -> None:
    """Raise as ``remote_target`` does where no container engine answers on ``host``."""
    with remedies_of(host), _remote_engine(host):
        pass


@contextmanager
def _remote_engine(host: Host) -> Iterator[ContainerEngine]:
    """The container engine of ``host``, through a tunnel where it is elsewhere."""
    with ExitStack() as stack:
        address = f"unix://{host.socket}"
        if host.ssh is not None:
            address = stack.enter_context(open_tunnel(host)).address
        yield stack.enter_context(connect(address))


def _controller_on(
    engine: ContainerEngine, host: Host, wanted: WantedImage, reporter: Reporter
) -> AbstractContextManager[RemoteController]:
    """The controller, in the likeliest image: which one fits is known after it has looked."""
    entry = controller_image(
        engine.facts,
        user_table(wanted.table),
        host,
        lambda entry: ready_image(engine, entry) is not None,
        wanted.name,
    )
    first = _ensure(engine, entry, wanted, reporter)
    launch = launch_for(engine, None, first.digest, board=Path("/"), processor="cpu")
    return board_controller(engine, launch, host.root, host.name)


@contextmanager
def remedies_of(host: Host) -> Iterator[None]:
    """Remedies of what is wrong with a board elsewhere name where they are to be run."""
    try:
        yield
    except MansardError as error:
        raise on_board(error, host) from error


def _find_image(
    engine: ContainerEngine, machine: MachineIdentity, wanted: WantedImage, reporter: Reporter
) -> ContainerImage:
    """The image that fits ``machine``, built first where it is not there."""
    table = user_table(wanted.table)
    fit = choose_image(machine, table, name=wanted.name, engines=wanted.engines)
    reporter.note(f"image {fit.image.name}: {fit.why}")
    return _ensure(engine, fit.image, wanted, reporter)


def _ensure(
    engine: ContainerEngine, entry: Entry, wanted: WantedImage, reporter: Reporter
) -> ContainerImage:
    """The image of ``entry`` on ``engine``, built first where it is not there."""
    return ensure_image(
        engine,
        entry,
        is_offline=wanted.is_offline,
        say=reporter.note,
        ask=reporter.ask,
    )


def find_processor(
    target: BenchTarget,
    machine: MachineIdentity,
    wanted: Processor | None,
    reporter: Reporter,
    *,
    on_cpu: str = "measure the CPU with --processor cpu",
) -> Probe:
    """What the kernels will run on, and with: ``wanted``, or the GPU where there is one.

    A GPU that could be measured after an installation is an error, so that nobody gets numbers of
    the CPU in its place. The CPU is measured with a note, the first one, where nothing can be
    installed to help: the driver does not answer here. A Jetson is measured for its GPU: one that
    cannot be used is an error. A simulated board has no GPU: the CPUs of the machine that it is
    simulated on do the work, unless its stand-in is ``wanted``. ``on_cpu``: how the user asks for
    the CPU.
    """
    has_gpu = machine.kind in {"gpu", "jetson"} and not machine.is_simulated
    if wanted == "cpu" or (wanted is None and not has_gpu):
        if wanted is None and machine.kind == "cpu" and not machine.is_simulated:
            _note_cards(target.seen_cards().on_bus, _NO_ANSWER, machine, reporter)
        return target.probe("cpu")
    probe = target.probe("gpu")
    if probe.gpu is not None:
        return probe
    reason = probe.unknown["gpu"]
    if wanted == "gpu" or machine.kind == "jetson":
        raise DeviceError(
            f"the GPU cannot be measured: {reason}",
            fix="'mansard doctor' says what is missing; --processor cpu measures the CPU",
        )
    what, _, advice = reason.partition("; ")
    if "cupy" not in probe.versions:
        advice = f"install 'mansard[{cuda_extra(machine.driver)}]'"
    if cards := target.seen_cards().of_cuda:
        raise UsageError(
            f"this machine has {listed(cards)}, which cannot be measured: {what}",
            fix=f"{advice or 'look at what mansard doctor says'}, or {on_cpu}",
        )
    _note_cards(machine.accelerators, _NO_ACCESS, machine, reporter)
    return target.probe("cpu")


_NO_ANSWER = "no driver of NVIDIA answers here"
_NO_ACCESS = (
    "CUDA's driver gives this process no access (is CUDA_VISIBLE_DEVICES empty, or the container "
    "without access to the GPU?)"
)


def _note_cards(
    cards: Sequence[str], reason: str, machine: MachineIdentity, reporter: Reporter
) -> None:
    if cards:
        reporter.note(
            f"note: this machine has {listed(cards)}, which cannot be measured: {reason}; the "
            f"CPU, {machine.name}, is measured"
        )
