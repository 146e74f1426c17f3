"""Programs on hosts that cannot be measured there, in one line; and users who may not set modes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.simulator import snapshot
from tests.cli.in_process import mansard
from tests.containers.image_here import Here
from tests.containers.ssh_board import SshBoard, ssh_board, why_no_sshd
from tests.containers.test_bench_fleet import ssh_with
from tests.containers.test_programs_on_hosts import Hosts
from tests.containers.throwaway import Daemon

REASON = why_no_sshd()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
# A user without root's rights: in a user namespace of its own, without one of its ids mapped.
AS_NOBODY = "unshare --user"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh") / "board") as started:
        yield started


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("/nonesuch/python3", "near: /nonesuch/python3 is not there"),
        ("echo '  Welcome!'; exit 1", "near: ssh has ended: it does not say why"),
        ('exec python3 -I -S "$@"', " lacks msgspec; 'ssh orin {python} -m pip install msgspec'"),
        (
            "echo 'mansard: refused old /usr/bin/python3 (Python 3.8)'",
            "near: /usr/bin/python3 (Python 3.8) is older than Python 3.10; name a Python 3.10",
        ),
        (
            "echo 'mansard: refused full [Errno 28] No space left on device'",
            "near: Mansard's modules cannot be written to ~/.cache/mansard: [Errno 28] No space",
        ),
        ("echo 'mansard: ready'; echo '{\"type\":'", "wrote what is not an answer ("),
        ("echo 'mansard: ready'; echo 'no memory' >&2", "process there has ended: no memory; look"),
    ],
)
def test_a_python_that_cannot_measure_is_one_line(
    python: str, said: str, tmp_path: Path, sshd: SshBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(f"#!/bin/sh\n{python}\n")
    stand_in.chmod(0o755)
    program = python if python.startswith("/") else str(stand_in)
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(f'[boards.near]\ndocker = "orin"\npython = "{program}"\n')
    path = f"{ssh_with(tmp_path / 'bin', sshd.options)}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    words = ("measure", "--host", "near", "--hosts-file", hosts, "--runs", tmp_path / "runs")
    done = mansard(*words, "--", "true")
    assert done.returncode == 1
    assert said.format(python=program) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--remote-folder", "/srv"), "without --host; add --host NAME"),
        (("--hosts-file", "hosts.toml"), "without --host; add --host NAME"),
        (("--host", "unix:///run/docker.sock"), "programs and servers are measured over ssh"),
        (("--host", "a", "--board", "."), "--local, --board and --container-engine are about"),
        (("--host", "-oProxyCommand=x"), "does not name a board"),
    ],
)
def test_hosts_that_cannot_be_meant_are_refused(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = mansard("measure", *words, "--runs", tmp_path / "runs", "--", "true", cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_file_as_standard_input_is_refused_and_a_pipe_is_noted(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    given = tmp_path / "given"
    given.write_text("hello\n")
    words = ("--host", "near", "--repeat", "1", "--", "cat")
    with given.open() as file, hosts.begin(*words, stdin=file.fileno()) as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "standard input is a file of this machine" in said
    with hosts.begin(*words, stdin=subprocess.PIPE) as process:
        out, said = process.communicate("hello\n", timeout=300)
    assert (process.returncode, out) == (0, ""), said
    assert "standard input is not passed to hosts" in said


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    words = ("--host", "near", "--remote-folder", "/nonesuch", "--", "true")
    code, _, said = hosts.run(*words)
    assert code == 2
    assert said.splitlines()[-1] == (
        "mansard: near: /nonesuch: cannot be entered: no such file or directory; "
        "--remote-folder DIR"
    )


def test_modes_are_picked_where_the_hosts_python_has_numpy(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = Hosts(tmp_path, sshd, "near")  # its Python has msgspec alone
    code, _, said = hosts.run("--host", "near", "--mode", "all", "--pick", "2", "--", "true")
    assert code == 1
    assert said.splitlines() == [
        "mansard: near: its Python lacks numpy, by which --pick spreads modes; "
        "install numpy there, or name the modes"
    ]
    assert not hosts.left()


@pytest.mark.docker
def test_modes_that_the_user_may_not_set_are_set_from_a_container(
    tmp_path: Path, sshd: SshBoard, daemon: Daemon, built_image: Here
) -> None:
    if subprocess.run([*AS_NOBODY.split(), "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    hosts = Hosts(tmp_path, sshd, "near", prefix=AS_NOBODY)
    root, listed = hosts.roots["near"], tmp_path / "hosts.toml"
    before = snapshot(root)
    root.chmod(0o555)
    words = ("--host", "near", "--mode", "15W", "--repeat", "1", "--", "sh", "-c", "echo ran")
    # Without an engine nothing is set.
    listed.write_text(f'{listed.read_text()}socket = "{tmp_path}/none.sock"\n')
    code, out, said = hosts.run(*words)
    assert (code, out) == (1, "")
    assert "near: this user may not set its modes: its controller runs in a container" in said
    assert "no container engine listens on" in said
    socket = daemon.address.removeprefix("unix://")
    listed.write_text(listed.read_text().replace(f"{tmp_path}/none.sock", socket))
    (tmp_path / "mansard").mkdir()
    (tmp_path / "mansard/images.toml").symlink_to(built_image.table)
    hosts.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    code, out, said = hosts.run(*words)
    assert (code, out) == (0, "ran\n"), said
    assert [mode for mode, _ in hosts.rows()] == ["15W"]
    assert snapshot(root) == before
