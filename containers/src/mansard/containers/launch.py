"""One container from start to end: a message goes in, lines come out.

A container has an owner: the process that started it, by its id, start time and boot. It ends
with its owner, because its standard input ends then. One that does not, say because its
program hangs in a driver, is removed by the next start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from mansard.containers.answers import EVENTS, answer, messages
from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.engine_errors import BUILD_IMAGE, explained
from mansard.containers.settings import OWNER_LABEL, ContainerLaunch, all_mounts, create_arguments
from mansard.containers.stream import Attached, attach, split_lines
from mansard.core.errors import RESUMES, ContainerError, MansardError, UsageError
from mansard.core.text import masked
from mansard.measuring.events import SILENCE_S

_ENDING = frozenset({404, 409})  # it is gone, or on its way
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """The boot of this machine, the number of this process, and when it was started."""
    return name_process(os.getpid())


def name_process(pid: int) -> str:
    """The name of process ``pid`` as an owner; raises ContainerError where there is none."""
    started = _start_ticks(pid)
    if started is None:
        raise ContainerError(f"there is no process {pid}", fix="mount /proc")
    return f"{_boot()}/{pid}/{started}"


def is_gone(owner: str) -> bool:
    """Whether ``owner`` was a process since this machine's boot and has ended.

    Of processes elsewhere, or of an earlier boot, nothing is known: then it is not gone.
    """
    boot, _, rest = owner.partition("/")
    pid, _, started = rest.partition("/")
    if boot != _boot() or not pid.isdecimal() or not started.isdecimal():
        return False
    return _start_ticks(int(pid)) != int(started)


def remove_leftovers(engine: ContainerEngine) -> tuple[str, ...]:
    """Remove containers and volumes whose owners are gone; short ids of the containers.

    Raises ContainerError.
    """
    from docker.errors import APIError

    removed = []
    with explained(engine.address):
        # Not the SDK's list of objects: it asks for each, and fails if one ends meanwhile.
        containers = engine.client.api.containers(all=True, filters={"label": OWNER_LABEL})
        for container in containers:
            if not is_gone(str((container.get("Labels") or {}).get(OWNER_LABEL, ""))):
                continue
            try:
                engine.client.api.remove_container(container["Id"], force=True)
            except APIError as error:
                if error.status_code not in _ENDING:
                    raise
                continue
            removed.append(str(container["Id"])[:12])
        # After the containers: a volume that one of them still has stays until the next start.
        volumes = engine.client.api.volumes(filters={"label": OWNER_LABEL}).get("Volumes")
        for volume in volumes or ():
            if is_gone(str((volume.get("Labels") or {}).get(OWNER_LABEL, ""))):
                remove_volume(engine, str(volume["Name"]))
    return tuple(removed)


def remove_volume(engine: ContainerEngine, name: str) -> None:
    """Remove a volume, unless it is gone already or a container has it; raises ContainerError."""
    from docker.errors import APIError

    with explained(engine.address):
        try:
            engine.client.api.remove_volume(name)
        except APIError as error:
            if error.status_code not in _ENDING:
                raise


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _start_ticks(pid: int) -> int | None:
    """When ``pid`` was started, in clock ticks since boot; None where there is no such process.

    Source: proc(5), /proc/pid/stat, fields 3 and 22. The name in field 2 may hold blanks and
    brackets.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] == "Z":  # a zombie has ended, its parent has not looked yet
        return None
    return int(fields[19])


_KILLED, _CRASHED = 137, 139  # 128 and the number of the signal
_STOPPED = frozenset({130, 143})  # our own program's code, and that of one without a handler
_NOT_RUN = frozenset({126, 127})  # the shell's and the init program's codes
_WAIT_S = 10
_DIED = frozenset({"die", "died"})  # as Docker and podman call it
_TAIL_CHARACTERS = 400


class Ending(msgspec.Struct, frozen=True):
    """How a container ended; None where the engine has not reported it."""

    exit_code: int | None
    was_out_of_memory: bool


def engine_time_s(client: Any) -> int:
    """Now, by the engine's clock, in seconds since 1970; raises what the SDK raises."""
    text = str(client.info().get("SystemTime") or "")
    try:
        # Nanoseconds are more than Python 3.10 reads. Docker tells UTC, podman local time.
        now = datetime.fromisoformat(text[:19] + _zone(text))
    except ValueError:
        now = datetime.now(timezone.utc)
    return int(now.timestamp())


def how_it_ended(client: Any, container: str, since_s: int) -> Ending:
    """Wait for the events of a container whose streams have ended; raises what the SDK raises."""
    was_out_of_memory = False
    until_s = engine_time_s(client) + _WAIT_S
    wanted = {
        "since": str(since_s),
        "until": str(until_s),
        "filters": json.dumps({"container": [container]}),
    }
    with answer(client, "GET", "/events", limits=EVENTS, parameters=wanted) as response:
        for event in messages(response):
            action = event.get("Action") or event.get("status")
            was_out_of_memory |= action == "oom"
            if action in _DIED:
                attributes = (event.get("Actor") or {}).get("Attributes") or {}
                code = str(attributes.get("exitCode") or attributes.get("containerExitCode") or "")
                return Ending(int(code) if code.isdecimal() else None, was_out_of_memory)
    return Ending(None, was_out_of_memory)


def explain_ending(ending: Ending, last_words: str, where: str) -> ContainerError:
    """Why a container ended before it was through, and what to do."""
    code = ending.exit_code
    said = " ".join(masked(last_words).split())[-_TAIL_CHARACTERS:]
    if ending.was_out_of_memory:
        what = "the memory ran out, and the kernel killed the container"
        fix = f"end other programs, the desktop first; {RESUMES}"
    elif code == _KILLED:
        what = "the container was killed, from outside or because the memory ran out"
        fix = f"look into 'dmesg' for the latter; {RESUMES}"
    elif code in _STOPPED:
        what, fix, said = "the container was stopped from outside", RESUMES, ""
    elif code == _CRASHED:
        what, fix = "the program in the container crashed (SIGSEGV)", f"report this; {RESUMES}"
    elif code in _NOT_RUN or "No module named" in said:
        what, fix = "the image lacks what is to run in it", BUILD_IMAGE
    elif code is None:
        what, fix = "the container ended, and the engine does not say how", RESUMES
    else:
        what, fix = f"the container ended early with exit code {code}", RESUMES
    return ContainerError(f"{what}: {said}" if said else what, where=where, fix=fix)


def _zone(text: str) -> str:
    if text.endswith("Z"):
        return "+00:00"
    return text[-6:] if text[-6:-5] in {"+", "-"} else "+00:00"


GRACE_S = 3.0  # for the program to end by itself when its input ends
STOP_S = 2  # for it to end when it is asked to by a signal
REMOVE_S = 20  # for the engine to clear up behind it
_TAIL_BYTES = 8192
_GONE, _BEING_REMOVED = 404, 409


class Container:
    """A running container, attached."""

    def __init__(
        self, engine: ContainerEngine, ident: str, attached: Attached, since_s: int
    ) -> None:
        self.ident = ident
        self._engine = engine
        self._attached = attached
        self._since_s = since_s
        self._tail = b""

    @property
    def last_words(self) -> str:
        """The end of its standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def lines(
        self,
        silence_s: Callable[[], float] = lambda: SILENCE_S,
        check: Callable[[], object] = lambda: None,
    ) -> Iterator[bytes]:
        """Every line of its standard output; raises ContainerError if it fails.

        ``silence_s`` is asked before each wait how long it may last.
        ``check`` is called every few seconds, and ends the waiting by what it raises. A container
        is silent while it writes no whole line, whatever else it writes. A last line without an
        end is dropped: a killed program left it half-written.
        """
        try:
            yield from self._lines_of(silence_s, check)
        except TimeoutError as error:
            raise ContainerError(
                f"the container has said nothing for {silence_s():g} s",
                where=self.ident[:12],
                fix="look at 'dmesg' for a GPU that hangs; what was measured is kept",
            ) from error
        self._check_end()

    def _lines_of(
        self, silence_s: Callable[[], float], check: Callable[[], object]
    ) -> Iterator[bytes]:
        splitter = split_lines()
        while True:
            lines: list[bytes] = []
            for chunk in self._attached.receive(silence_s(), check):
                if chunk.output == "stdout":
                    lines = list(splitter.feed(chunk.data))
                else:
                    self._tail = (self._tail + chunk.data)[-_TAIL_BYTES:]
                if lines:
                    break
            else:
                return
            yield from lines

    def _check_end(self) -> None:
        try:
            with explained(self._engine.address):
                ending = how_it_ended(self._engine.client, self.ident, self._since_s)
        except MansardError as error:
            raise ContainerError(
                f"the container engine went away in the middle of a run: {error.what}",
                where=self._engine.address,
                fix=f"look at 'journalctl -u docker' and start it again; {RESUMES}",
            ) from error
        if ending.exit_code != 0 or ending.was_out_of_memory:
            raise explain_ending(ending, self.last_words, self.ident[:12])

    def end(self) -> None:
        """End it: first by its input, then by a signal, then by force; it is removed in any case.

        Raises nothing but KeyboardInterrupt: it is the end of a run that may have failed already.
        """
        try:
            if not self._ends_by_itself():
                with suppress(MansardError), explained(self._engine.address):
                    self._engine.client.api.stop(self.ident, timeout=STOP_S)
        finally:
            self._attached.close()
            remove(self._engine, self.ident)

    def _ends_by_itself(self) -> bool:
        self._attached.close_input()
        try:
            # Read its output to the end: a program with unread output may not end.
            for _ in self._attached.receive(GRACE_S):
                pass
        except (TimeoutError, ContainerError):
            return False
        return True


@contextmanager
def launched(
    engine: ContainerEngine, launch: ContainerLaunch, message: bytes = b""
) -> Iterator[Container]:
    """A container that is removed at the end of the block; raises ContainerError.

    ``message`` is written to its standard input, which stays open.
    """
    _check_mounts(engine, launch)
    remove_leftovers(engine)
    with explained(shown_image(launch.image)):
        since_s = engine_time_s(engine.client) - 1
    arguments = create_arguments(launch, this_process())
    ident, attached = start_attached(engine, launch.image, arguments, message)
    container = Container(engine, ident, attached, since_s)
    try:
        yield container
    finally:
        container.end()


def start_attached(
    engine: ContainerEngine, image: str, arguments: dict[str, Any], message: bytes = b""
) -> tuple[str, Attached]:
    """The id and streams of a started container; no output is missed.

    ``arguments``: of ``containers.create``. Where this fails, the container is removed and its
    connection closed. Raises ContainerError.
    """
    with ExitStack() as undo, explained(shown_image(image)):
        created: Any = engine.client.containers.create(**arguments)
        ident = str(created.id)
        undo.callback(remove, engine, ident)
        attached = attach(engine.client, ident)
        undo.callback(attached.close)
        attached.send(message)
        created.start()
        undo.pop_all()
    return ident, attached


def shown_image(image: str) -> str:
    """An image's name for a message; an id is shortened as engines do."""
    return f"image {image.removeprefix('sha256:')[:12] if image.startswith('sha256:') else image}"


def remove(engine: ContainerEngine, ident: str) -> None:
    """Remove a container, running or not, and wait until it is gone; it may be gone already."""
    from docker.errors import APIError

    api = engine.client.api
    with suppress(MansardError), explained(engine.address):
        try:
            api.remove_container(ident, force=True)
        except APIError as error:
            if error.status_code == _BEING_REMOVED:
                with suppress(APIError):  # it was faster
                    api.wait(ident, timeout=REMOVE_S, condition="removed")
            elif error.status_code != _GONE:
                raise


def _check_mounts(engine: ContainerEngine, launch: ContainerLaunch) -> None:
    """Raise one clear error for a missing folder; a remote engine's folders are not checked."""
    if not engine.facts.is_local:
        return
    for mount in all_mounts(launch):
        if not Path(mount.source).exists():
            raise UsageError("the folder to be mounted is not there", where=str(mount.source))


def stop_containers(address: str) -> None:
    """Stop every measuring container that this process has on the engine at ``address``.

    Over a connection of its own: the worker's is busy. Their reader then comes to its end.
    Raises ContainerError where the engine is gone, and all containers with it.
    """
    label = f"{OWNER_LABEL}={this_process()}"
    with connect(address) as engine:
        with explained(address):
            idents = [
                container["Id"]
                for container in engine.client.api.containers(filters={"label": label})
            ]
        for ident in idents:
            with suppress(MansardError), explained(address):  # it has ended meanwhile
                engine.client.api.stop(ident, timeout=STOP_S)
