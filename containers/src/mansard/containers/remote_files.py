"""A board's own files over plain ssh, mirrored into a local folder for our readers.

Nothing is installed on the board and nothing is set. One ssh stays connected; for each look the
board runs one ``grep`` over the files of /sys and /proc that a look needs, as the user who logs in.
What only root may read stays unread, unless root logs in. The folder holds plain files where the
board has links, so that every reader of a simulated board works on it too.

Sources: grep(1) of GNU and BusyBox (``-H`` puts the file's name before each line, complaints begin
with ``grep:``); sh(1p); ssh(1).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from mansard.containers.hosts import Host
from mansard.containers.tunnel import explain_ssh, ssh_command
from mansard.core.errors import ContainerError, DeviceError, UsageError
from mansard.core.processes.line_channel import LineSplitter
from mansard.core.processes.programs import end_program, start_program
from mansard.core.storage.leftovers import system_temporary, temporary_folder
from mansard.core.text import printable

CONNECT_S = 55.0  # key exchange on a small board, over a jump host
LOOK_S = 20.0  # for one look, over a slow line
_STOP_S = 2.0
_MOST_BYTES = 4 << 20  # of one answer; a board's first one has some 100 kB
_SAID_BYTES = 4096
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own in it
_END = b"@end"

_CPU = "/sys/devices/system/cpu"
_ONLINE = f"{_CPU}/online"
_ZONES = "/sys/class/thermal/thermal_zone[0-9]*"
_COOLERS = "/sys/class/thermal/cooling_device[0-9]*"
_HWMON = "/sys/class/hwmon/hwmon[0-9]*"
_INA = "/sys/bus/i2c/drivers/ina[23]*/*-*/hwmon/hwmon*"
_IIO = "/sys/bus/i2c/drivers/ina3221x/*-*/iio[:_]device*"
_DEBUG = "/sys/kernel/debug"
_RAPL = "/sys/class/powercap/intel-rapl:*"
# What does not change while a board runs, but with its power mode.
_ONCE = (
    "/etc/mansard-simulated",
    "/etc/nv_tegra_release",
    "/etc/nvpmodel.conf",
    *(f"/proc/device-tree/{name}" for name in ("model", "compatible", "nvidia,dtsfilename")),
    *(f"/proc/device-tree/chosen/{name}" for name in ("ids", "nvidia,sku")),
    *(f"/sys/devices/soc0/{name}" for name in ("machine", "family")),
    "/proc/sys/kernel/hostname",
    f"{_CPU}/cpu[0-9]*/topology/physical_package_id",
    f"{_CPU}/cpu[0-9]*/cpufreq/related_cpus",
    f"{_CPU}/cpu[0-9]*/cpufreq/scaling_available_frequencies",
    f"{_CPU}/cpu[0-9]*/cpufreq/cpuinfo_m[ai][nx]_freq",
    "/sys/class/devfreq/*/available_frequencies",
    "/sys/class/devfreq/*/device/of_node/name",
    f"{_DEBUG}/bpmp/debug/emc/possible_rates",
    f"{_DEBUG}/bpmp/debug/clk/emc/possible_rates",
    f"{_DEBUG}/clk/override.emc/clk_possible_rates",
    f"{_ZONES}/type",
    f"{_ZONES}/trip_point_*_t[ey][mp][pe]*",
    f"{_COOLERS}/type",
    f"{_HWMON}/name",
    f"{_HWMON}/in[1-3]_label",
    f"{_INA}/in[1-3]_label",
    f"{_INA}/in[1-3]_enable",
    f"{_INA}/shunt[1-3]_resistor",
    *(f"{_INA}/{name}" for name in ("label", "power1_label", "curr1_label")),
    f"{_IIO}/rail_name_[0-2]",
    f"{_RAPL}/name",
    f"{_RAPL}/max_energy_range_uj",
)
_EACH = (
    "/proc/stat",
    "/proc/meminfo",
    "/var/lib/nvpmodel/status",
    f"{_CPU}/online",
    f"{_CPU}/present",
    f"{_CPU}/cpu[0-9]*/online",
    f"{_CPU}/cpu[0-9]*/cpufreq/scaling_m[ai][nx]_freq",
    f"{_CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq",
    f"{_CPU}/cpu[0-9]*/thermal_throttle/package_throttle_count",
    *(f"/sys/class/devfreq/*/{name}_freq" for name in ("min", "max", "cur")),
    "/sys/class/devfreq/*/load",
    "/sys/devices/*/load",
    "/sys/devices/platform/*/load",
    "/sys/devices/platform/*/*/load",
    "/sys/kernel/nvpmodel_clk_cap/emc",
    "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
    *(f"{_DEBUG}/bpmp/debug/clk/emc/{name}" for name in ("rate", "mrq_rate_locked", "max_rate")),
    *(f"{_DEBUG}/clk/override.emc/{name}" for name in ("clk_update_rate", "clk_state")),
    f"{_DEBUG}/tegra_bwmgr/emc_max_rate",
    "/sys/kernel/actmon_avg_activity/mc_all",
    f"{_DEBUG}/cactmon/mc_all",
    f"{_DEBUG}/bpmp/debug/actmon/mc_all_avg_activity",
    f"{_DEBUG}/nvmap/iovmm/clients",
    f"{_ZONES}/temp",
    f"{_COOLERS}/cur_state",
    f"{_HWMON}/oc[0-9]_event_cnt",
    f"{_HWMON}/curr[1-3]_*_alarm",
    f"{_HWMON}/fan[0-9]_input",
    f"{_HWMON}/rpm",
    f"{_HWMON}/pwm[0-9]",
    f"{_HWMON}/temp1_input",
    "/sys/devices/pwm-fan/*_pwm",
    "/sys/devices/pwm-fan/rpm_measured",
    *(
        f"/sys/devices/{place}/*.*/power/runtime_status"
        for place in ("*.host1x", "platform/host1x", "platform/*.host1x", "platform/bus@0/*.host1x")
    ),
    f"{_INA}/in[1-3]_input",
    f"{_INA}/curr[1-3]_input",
    f"{_INA}/power1_input",
    f"{_IIO}/in_power[0-2]_input",
    f"{_RAPL}/energy_uj",
)
# A board's path, which has colons only in these names, and a line of that file.
_LINE = re.compile(rb"((?:/(?:iio:device[0-9]+|intel-rapl(?::[0-9]+)+|[^:/\0]+))+):(.*)", re.DOTALL)
_COMPLAINT = re.compile(rb"grep: (.*): Permission denied")


class BoardFiles:
    """A folder with the files of a board as of the last ``fetch``.

    ``denied``: what the user who logged in may not read.
    """

    def __init__(
        self, host: Host, folder: Path, options: Sequence[str] = (), *, look_s: float = LOOK_S
    ) -> None:
        self._host, self.folder, self._look_s = host, folder, look_s
        self._prefix = "" if not host.is_simulated else str(host.root)
        self._texts: dict[str, bytes] = {}
        self.denied: tuple[str, ...] = ()
        self._process = start_program(
            [*ssh_command(host, options), f"exec sh -c {shlex.quote(self._script())}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            error=ContainerError,
        )
        self._said = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._lines = LineSplitter(_MOST_BYTES, source=host.name, error=DeviceError)
        self._has_answered = False
        self._changing: frozenset[str] = frozenset()

    def fetch(self) -> None:
        """Update the files; raises ContainerError and DeviceError."""
        if not self._has_answered:
            self._take(self._ask(b"once", CONNECT_S))
            self._has_answered = True
        cores = self._texts.get(_ONLINE)
        self._changing = self._take(self._ask(b"each", self._look_s), self._changing)
        if cores is not None and self._texts.get(_ONLINE) != cores:  # their clocks came with them
            self._take(self._ask(b"once", self._look_s))

    def close(self) -> None:
        """End ssh."""
        end_program(self._process, patience_s=_STOP_S)
        self._listener.join(_STOP_S)

    def _script(self) -> str:
        """Answers each line of its input: the files that it names, then a mark."""
        commands = {
            name: " ".join(self._prefix + place for place in places)
            for name, places in (("once", _ONCE), ("each", _EACH))
        }
        cases = " ".join(f"{name}) set -- {places};;" for name, places in commands.items())
        # The shell leaves an unmatched pattern as it is: a file that does not exist.
        return (
            "export LC_ALL=C; exec 2>&1; while read -r what; do "
            f"case $what in {cases} esac; grep -aH '' \"$@\"; echo {_END.decode()}; done"
        )

    def _ask(self, what: bytes, patience_s: float) -> list[bytes]:
        """The lines of the answer; raises ContainerError where none comes in time."""
        try:
            assert self._process.stdin is not None  # noqa: S101 - a pipe, as asked for
            self._process.stdin.write(what + b"\n")
            return self._receive(time.monotonic() + patience_s)
        except OSError as error:
            raise self._explain(str(error), is_over=True) from error

    def _receive(self, end_s: float) -> list[bytes]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe, as asked for
        handle = self._process.stdout.fileno()
        lines: list[bytes] = []
        n_bytes = 0
        while True:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([handle], [], [], left_s)[0]:
                raise self._explain("nothing came through ssh in time")
            more = os.read(handle, 1 << 16)
            n_bytes += len(more)
            if not more:
                raise self._explain("", is_over=True)
            if n_bytes > _MOST_BYTES:
                raise DeviceError("it sends more than its files hold", where=self._host.name)
            for line in self._lines.feed(more):
                if line == _END:
                    return lines
                lines.append(line)

    def _take(self, lines: list[bytes], before: frozenset[str] = frozenset()) -> frozenset[str]:
        """Write changed files, remove those gone since ``before``; returns the files received."""
        texts: dict[str, list[bytes]] = {}
        denied = []
        last = None
        for line in lines:
            complaint = _COMPLAINT.fullmatch(line)
            if complaint is not None:
                denied.append(printable(complaint[1].decode("utf-8", "replace"), 200))
                continue
            match = _LINE.fullmatch(line)
            path = own_path(match[1], self._prefix) if match is not None else None
            if match is None or path is None:
                continue
            if path != last and path in texts:  # a second pattern fits it
                texts[path] = []
            last = path
            texts.setdefault(path, []).append(match[2])
        if before:
            self.denied = tuple(name.removeprefix(self._prefix) for name in denied)
        for path, pieces in texts.items():
            text = b"\n".join(pieces) + b"\n"
            if self._texts.get(path) != text:
                self._write(path, text)
        for path in before - texts.keys():
            self._texts.pop(path, None)
            (self.folder / path[1:]).unlink(missing_ok=True)
        return frozenset(texts)

    def _write(self, path: str, text: bytes) -> None:
        place = self.folder / path[1:]
        if path not in self._texts:
            place.parent.mkdir(parents=True, exist_ok=True)
        # In its place, for a meter keeps its file open.
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(handle, text, 0)
            os.ftruncate(handle, len(text))
        finally:
            os.close(handle)
        self._texts[path] = text

    def _listen(self) -> None:
        """Keep the end of ssh's messages; unread, they would block it."""
        if self._process.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                while more := self._process.stderr.read(_SAID_BYTES):
                    self._said = (self._said + more)[-_SAID_BYTES:]

    def _explain(self, why: str, *, is_over: bool = False) -> ContainerError:
        """``is_over``: ssh has ended or is about to; its last words may be on their way."""
        if is_over:
            self._listener.join(_STOP_S)
        self.close()
        text = self._said.decode("utf-8", "replace")
        said = printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))
        if not self._has_answered:
            return explain_ssh(said or why, self._host)
        return ContainerError(
            f"the connection has ended{f': {said or why}' if said or why else ''}",
            where=self._host.name,
            fix=f"look at the board and the network to it ('{self._host.login}')",
        )


def own_path(name: bytes, prefix: str) -> str | None:
    """The board's own path of a file below ``prefix`` that it sent; None for any other place."""
    path = name.decode("utf-8", "replace")
    if not path.startswith(f"{prefix}/"):
        return None
    path = path.removeprefix(prefix)
    parts = PurePosixPath(path).parts
    is_ours = len(parts) > 2 and parts[1] in {"sys", "proc", "etc", "var"}
    return path if is_ours and ".." not in parts else None


@contextlib.contextmanager
def board_files(host: Host, options: Sequence[str] = ()) -> Iterator[BoardFiles]:
    """The files of ``host``, fetched once, in a folder that is removed at the end of the block.

    ``options`` are handed to ssh. Raises UsageError for a host without ssh, ContainerError.
    """
    if host.ssh is None:
        raise UsageError(
            "is an engine's socket on this machine, and watching reads over ssh",
            where=host.name,
            fix="give user@board; or --board for a simulated board's folder here",
        )
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else system_temporary()
    with temporary_folder(parent) as folder:
        files = BoardFiles(host, folder, options)
        try:
            files.fetch()
            yield files
        finally:
            files.close()
