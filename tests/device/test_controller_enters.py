"""The controller goes into a board's own root, and works there with the board's own tools."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.core.hashing import content_hash
from mansard.device.controller import LocalController
from mansard.device.controller.remote import remote_controller
from mansard.simulator import snapshot
from tests.device.controller_process import started
from tests.simulator.simulator_bench import text

CONTROLLER = (sys.executable, "-m", "mansard.device.controller", "--enter")


def lent_folders() -> list[Path]:
    """What the simulated tools need of this machine to run inside: Python and its libraries."""
    libraries = [Path("/lib64"), Path("/usr/lib64"), Path("/lib"), Path("/usr/lib")]
    multiarch = sysconfig.get_config_var("MULTIARCH") or "none"
    libraries = [*(folder / multiarch for folder in libraries[2:]), Path("/lib64")]
    pythons = [Path(sys.base_prefix), Path(sys.prefix)]
    if Path(sys.base_prefix) == Path("/usr"):  # the board has a /usr of its own
        pythons[0] = Path(sysconfig.get_path("stdlib"))
        libraries.append(Path(os.path.realpath(sys.executable)).parent)
    return [folder for folder in (*libraries, *pythons) if folder.is_dir()]


def inside(root: Path) -> tuple[str, ...]:
    """The controller of ``root`` with what it needs mounted, for it and its children alone."""
    shell = shlex.quote(str(root / "bin/sh"))
    lines = ["set -e", f"mkdir {shlex.quote(str(root / 'bin'))}", f"touch {shell}",
             f"mount --bind /bin/sh {shell}"]  # fmt: skip
    for folder in lent_folders():
        place = root / folder.relative_to("/")
        lines.append(f"mkdir -p {shlex.quote(str(place))}")
        lines.append(f"mount --bind {shlex.quote(str(folder))} {shlex.quote(str(place))}")
    lines.append(f"exec {shlex.join([*CONTROLLER, str(root)])}")
    return ("unshare", "--mount", "/bin/sh", "-c", "\n".join(lines))


def why_not() -> str | None:
    """Why nothing can be mounted here; None where it can."""
    if os.geteuid() != 0:
        return "needs the right to mount"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else "has no mount namespaces of its own"


@pytest.mark.root
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_sweep_from_within_the_boards_own_root(agx_orin: Path) -> None:
    # On a board this link is absolute: it leads right from within its own root alone.
    conf = agx_orin / "etc/nvpmodel.conf"
    conf.rename(agx_orin / "etc/conf.real")
    conf.symlink_to("/etc/conf.real")
    local = LocalController(agx_orin)
    expected = [content_hash(local.choose_modes(wanted)) for wanted in ("all", "gpu=612MHz")]
    command = inside(agx_orin)
    with started(command) as channel, remote_controller(channel, "bench-1") as controller:
        before = snapshot(agx_orin)
        modes = [controller.choose_modes(wanted) for wanted in ("all", "gpu=612MHz")]
        assert [content_hash(found) for found in modes] == expected
        assert controller.identify().machine_hash == local.identify().machine_hash
        with controller.hold() as held:
            assert (agx_orin / "var/lib/mansard/journal.json").exists()
            (board_mode,) = controller.choose_modes("15W")
            assert held.set(board_mode).n_cpus == 4  # by its own nvpmodel
            assert "0001" in text(agx_orin, "var/lib/nvpmodel/status")
            assert held.set(modes[1][0]).gpu_hz == 612e6
        assert snapshot(agx_orin) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_without_the_right_to_enter_the_error_says_what_is_needed(agx_orin: Path) -> None:
    refuse_to_enter((*CONTROLLER, str(agx_orin)))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give it up")
def test_root_without_the_capability_cannot_enter(agx_orin: Path) -> None:
    refuse_to_enter(
        (
            "setpriv",
            "--bounding-set=-sys_chroot",
            "--inh-caps=-sys_chroot",
            *CONTROLLER,
            str(agx_orin),
        )
    )


def refuse_to_enter(command: tuple[str, ...]) -> None:
    with (
        started(command) as channel,
        pytest.raises(DeviceError, match=r"cannot be entered: operation not.*SYS_CHROOT"),
        remote_controller(channel, "bench-1"),
    ):
        pass


def test_a_simulated_boards_tools_run_where_this_machines_python_is_not(agx_orin: Path) -> None:
    # In a container the image's own Python has to do, by its name in PATH.
    for tool in ("usr/sbin/nvpmodel", "usr/bin/jetson_clocks", "usr/bin/tegrastats"):
        path = agx_orin / tool
        path.write_text(path.read_text().replace(sys.executable, "/none/bin/python"))
    done = subprocess.run(
        [agx_orin / "usr/sbin/nvpmodel", "-q"],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "30W" in done.stdout
