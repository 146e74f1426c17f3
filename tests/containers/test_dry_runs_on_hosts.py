"""Dry runs, restores and reports of several boards over a real sshd, without a container engine.

No Docker daemon is started: the sockets of the simulated boards' hosts are not there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.device.identity import TREE
from mansard.simulator import running, snapshot
from tests.containers.ssh_board import SshBoard, ssh_board, why_no_sshd
from tests.containers.test_programs_on_hosts import Hosts

REASON = why_no_sshd()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
DEAD = '[boards.dead]\ndocker = "nobody-listens.invalid"\n'
JOURNAL = "var/lib/mansard/journal.json"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh") / "board") as started:
        yield started


def mansard(hosts: Hosts, *words: str) -> tuple[int, str, str]:
    """Exit code and streams of a command that is given the hosts' file."""
    options: tuple[str, ...] = words
    rest: tuple[str, ...] = ()
    if "--" in words:
        at = words.index("--")
        options, rest = words[:at], words[at:]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mansard.cli", *options),
            *("--hosts-file", str(hosts.folder / "hosts.toml"), *rest),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**hosts.environment, "DOCKER_HOST": f"unix://{hosts.folder}/none.sock"},
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def add(hosts: Hosts, lines: str) -> None:
    path = hosts.folder / "hosts.toml"
    path.write_text(path.read_text() + lines)


def test_a_dry_run_of_a_program_needs_no_engine_and_goes_through_all_boards(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near", "far", "old")
    add(hosts, DEAD)
    found = {name: snapshot(root) for name, root in hosts.roots.items()}
    words = ("measure", "--host", "dead,near,old,far", "--mode", "15W", "--dry-run", "--", "true")
    code, out, err = mansard(hosts, *words)
    assert code == 1
    assert "Dry run of near: nothing is changed" in out
    assert "Dry run of far: nothing is changed" in out
    assert "far: 1 mode; the duration is unknown before the first run" in out
    last = err.splitlines()[-1]
    assert last.startswith("mansard: 2 of 4 boards failed: dead: ")
    # Xavier NX has no 15W: it fails alone, with the modes that it has, and would fail again.
    assert "old: unknown power mode '15W'; this board has " in last
    assert last.endswith("; the others are listed; the same command lists dead")
    assert {name: snapshot(root) for name, root in hosts.roots.items()} == found


def test_each_board_has_modes_of_its_own_in_the_file(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    add(hosts, 'modes = "MAXN_SUPER,15W"\n')
    (tmp_path / "more").mkdir()
    old = Hosts(tmp_path / "more", sshd, "old")
    add(hosts, (old.folder / "hosts.toml").read_text() + 'modes = "15W_2CORE"\n')
    words = ("measure", "--host", "near,old", "--dry-run", "--json")
    code, out, err = mansard(hosts, *words, "--", "true")
    assert code == 0, err
    boards = {one["board"]: one for one in json.loads(out)["boards"]}
    names = {
        name: [planned["mode"]["name"] for planned in one["modes"]] for name, one in boards.items()
    }
    assert names == {"near": ["MAXN_SUPER", "15W"], "old": ["15W_2CORE"]}
    # --mode goes before the file.
    code, out, err = mansard(hosts, *words, "--mode", "15W", "--", "true")
    assert code == 1
    assert [one["board"] for one in json.loads(out)["boards"]] == ["near"]
    assert "the same command" not in err


def test_boards_are_put_back_over_ssh_and_a_dry_run_touches_nothing(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near", "far")
    add(hosts, DEAD)
    root = hosts.roots["near"]
    with running(root):
        before = snapshot(root)
        held = "from pathlib import Path; import os\n"
        held += "from mansard.device.controller import LocalController\n"
        held += f"controller = LocalController(Path({str(root)!r}))\n"
        held += "with controller.hold() as hold:\n"
        held += "    hold.set(controller.choose_modes('15W')[0]); os._exit(9)\n"
        subprocess.run([sys.executable, "-c", held], check=False)
        assert (root / JOURNAL).exists()
        cut_off = snapshot(root)
        words = ("board", "restore", "--host", "dead,near,far")
        code, out, err = mansard(hosts, *words, "--dry-run")
        assert code == 1
        assert "near: power mode 15W → " in out
        assert "far: nothing to restore: no interrupted run on this board" in out
        ends = "the others are listed; the same command lists the rest"
        assert err.splitlines()[-1].startswith("mansard: 1 of 3 boards failed: dead: ")
        assert err.endswith(f"; {ends}\n")
        assert snapshot(root) == cut_off
        code, out, err = mansard(hosts, *words)
        assert code == 1
        assert "near: restored what the run of " in out
        assert err.endswith("; the others are put back; the same command restores the rest\n")
        assert snapshot(root) == before


def test_modules_of_other_versions_go_after_a_month_without_a_use(
    tmp_path: Path, sshd: SshBoard
) -> None:
    cache = tmp_path / "there/mansard"
    hosts = Hosts(tmp_path, sshd, "near", prefix=f"env XDG_CACHE_HOME={cache.parent}")
    for name, age_days in (("rooms-old", 31), (".rooms-torn", 31), ("rooms-new", 29), ("mine", 99)):
        (cache / name).mkdir(parents=True)
        used_s = time.time() - 86_400 * age_days
        os.utime(cache / name, (used_s, used_s))
    code, _, err = mansard(hosts, "board", "restore", "--host", "near", "--dry-run")
    assert code == 0, err
    (used,) = {path.name for path in cache.iterdir()} - {"rooms-new", "mine"}
    assert used.startswith("rooms-")
    assert used != "rooms-old"


def test_tables_and_conclusions_of_equal_boards_name_each_board(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    (tmp_path / "more").mkdir()
    twin = Hosts(tmp_path / "more", sshd, "near")
    add(hosts, (twin.folder / "hosts.toml").read_text().replace("boards.near", "boards.twin"))
    (twin.roots["near"] / TREE / "serial-number").write_text("1423021000002\0")
    words = ("measure", "--host", "near,twin", "--profile", "brief", "--repeat", "2")
    with running(hosts.roots["near"]), running(twin.roots["near"]):
        code, _, err = mansard(
            hosts,
            *(*words, "--mode", "15W,25W", "--runs", str(hosts.runs), "--"),
            *("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"),
        )
    assert code == 0, err
    assert "Programs on near: Jetson Orin Nano" in err
    assert "Programs on twin: Jetson Orin Nano" in err
    manifests = [read_document(path, Manifest) for path in hosts.runs.glob("*/manifest.json")]
    assert sorted(one.host for one in manifests) == ["near", "near", "twin", "twin"]
    done = subprocess.run(
        [sys.executable, "-m", "mansard.cli", "report", "--runs", str(hosts.runs)],
        capture_output=True,
        text=True,
        check=True,
    )
    (table,) = (part for part in done.stdout.split("\n\n") if "device" in part)
    assert [table.count(f"\n{name} ") for name in ("near", "twin")] == [2, 2]
    page = (hosts.runs / "report.html").read_text()
    text = re.sub(r"<[^>]+>", " ", page)
    for name in ("near", "twin"):
        for mode in ("15W", "25W"):
            assert re.search(rf"\b{name}\s+(sh -c [^<]*?\s+)?{mode}\b", text), (name, mode)
