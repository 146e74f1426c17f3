"""Each command: how a round of it begins, what must hold after a kill, and what after its end."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from synthetic_runs import write_modes

from mansard.core.errors import MansardError
from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.simulator import create_board, running, snapshot
from tests.containers.image_here import NAME, Here, build_here
from tests.containers.throwaway import Daemon, throwaway_daemon, why_not

# How many of 500 kills each command gets.
SHARES = MappingProxyType(
    {"cpu": 70, "board": 90, "container": 60, "fleet": 50}
    | {"merge": 70, "report": 70, "build": 40, "load": 50}
)
_MANSARD = (sys.executable, "-m", "mansard.cli")
_BRIEF = ("--profile", "brief", "--runs", "runs")


class Victim:
    """One command that is killed. ``usual_s``: moments of kills are drawn from 0 to it."""

    def __init__(self, kind: str, folder: Path, command: Sequence[str], usual_s: float) -> None:
        self.kind = kind
        self.folder = folder / kind
        self.temporary = folder / f"{kind}-temporary"
        self.command = (*_MANSARD, *command)
        self.usual_s = usual_s
        for made in (self.folder, self.temporary):
            made.mkdir(parents=True)

    def begin(self) -> None:
        """A new round."""

    def check(self) -> Iterable[str]:
        """What does not hold after a kill, or an end."""
        return ()

    def check_end(self) -> Iterable[str]:
        """What does not hold after an end alone."""
        return ()


class Bench(Victim):
    """``bench`` into ``runs``: rows may only be added."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        options: Sequence[str],
        usual_s: float,
        boards: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        super().__init__(kind, folder, ("bench", *_BRIEF, *options, "resnet18.onnx"), usual_s)
        self.runs = self.folder / "runs"
        self._seen: dict[Path, list[bytes]] = {}
        self._boards = boards
        self._found = {name: snapshot(root) for name, root in boards.items()}
        command = (*_MANSARD, "models", "write", str(self.folder), "resnet18")
        subprocess.run(command, check=True, capture_output=True)

    def begin(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)
        self._seen = {}

    def check(self) -> Iterator[str]:
        now = {path: complete_lines(path) for path in self.runs.glob("*/trials.jsonl")}
        for path, before in self._seen.items():
            if now.get(path, [])[: len(before)] != before:
                yield f"rows of {path.parent.name} that were there are not"
        for path, lines in now.items():
            if {json.loads(line)["run_id"] for line in lines[1:]} - {path.parent.name}:
                yield f"rows of another run in {path.parent.name}"
        self._seen = now
        page = self.runs / "report.html"
        if page.exists() and not page.read_bytes().rstrip().endswith(b"</html>"):
            yield "half a page"

    def check_end(self) -> Iterator[str]:
        for path in self.runs.glob("*/manifest.json"):
            manifest = read_document(path, Manifest)
            rows = [json.loads(line) for line in complete_lines(path.with_name("trials.jsonl"))[1:]]
            names = {row["trial_id"] for row in rows}
            if manifest.finished_utc is None or len(names) != manifest.n_trials:
                yield f"{len(names)} of {manifest.n_trials} trials in {path.parent.name}"
            kept = [row["trial_id"] for row in rows if not row.get("disturbances")]
            if len(kept) != len(set(kept)):
                yield f"a trial of {path.parent.name} was measured again, though it was good"
        for name, root in self._boards.items():
            after = snapshot(root)
            found = self._found[name]
            changed = [path for path in after | found if after.get(path) != found.get(path)]
            if changed:
                yield f"board {name} is not as it was found: {changed[:3]}"


class Page(Victim):
    """``report`` of many rows: the page is the old one or the new one."""

    def __init__(self, folder: Path) -> None:
        super().__init__("report", folder, ("report", "--runs", "runs"), 4.0)
        write_modes(self.folder / "runs", 8)
        self._before = digests(self.folder / "runs")

    def begin(self) -> None:
        (self.folder / "runs/report.html").unlink(missing_ok=True)

    def check(self) -> Iterator[str]:
        page = self.folder / "runs/report.html"
        if page.exists() and not page.read_bytes().rstrip().endswith(b"</html>"):
            yield "half a page"
        now = digests(self.folder / "runs")
        if any(now.get(path) != digest for path, digest in self._before.items()):
            yield "a run was changed"


class Merge(Victim):
    """``merge`` of two folders of runs into a third."""

    def __init__(self, folder: Path) -> None:
        super().__init__("merge", folder, ("merge", "first", "second", "--into", "whole"), 3.0)
        first, second = self.folder / "first", self.folder / "second"
        write_modes(first, 12)
        second.mkdir()
        for path in sorted(first.iterdir())[6:]:
            path.rename(second / path.name)
        self._before = digests(self.folder / "first") | digests(self.folder / "second")
        self._wanted: list[Any] | None = None

    def begin(self) -> None:
        shutil.rmtree(self.folder / "whole", ignore_errors=True)

    def check(self) -> Iterator[str]:
        now = digests(self.folder / "first") | digests(self.folder / "second")
        # Merging may make datasets beside the runs; the runs themselves stay.
        if any(now.get(path) != digest for path, digest in self._before.items()):
            yield "a run was changed"

    def check_end(self) -> Iterator[str]:
        found = merged_rows(self.folder / "whole")
        self._wanted = self._wanted or found
        if found != self._wanted:
            yield f"{len(found)} rows in the dataset, {len(self._wanted)} before"


class Build(Victim):
    """``image build`` from wheels that are here."""

    def __init__(self, folder: Path, daemon: Daemon, here: Here) -> None:
        options = ("--container-engine", daemon.address, "--images", str(here.table), "--offline")
        command = ("image", "build", NAME, *options, "--wheels", str(here.wheels), "--yes")
        super().__init__("build", folder, command, 25.0)
        self._daemon, self._here = daemon, here

    def begin(self) -> None:
        remove_images(self._daemon, self._here)

    def check_end(self) -> Iterator[str]:
        yield from faults_of_engine(self._daemon, self._here, None)


class Load(Victim):
    """``image load`` of a file that was saved."""

    def __init__(self, folder: Path, daemon: Daemon, here: Here) -> None:
        options = ("--container-engine", daemon.address, "--images", str(here.table))
        command = ("image", "load", "image.tar.gz", *options)
        super().__init__("load", folder, command, 12.0)
        build = ("image", "build", NAME, *options, "--offline", "--wheels", str(here.wheels))
        for made in (build, ("image", "save", "image.tar.gz", NAME, *options)):
            subprocess.run(
                (*_MANSARD, *made, *(["--yes"] if made is build else [])),
                check=True,
                capture_output=True,
                cwd=self.folder,
            )
        self._daemon, self._here = daemon, here
        self._digest = our_images(daemon, here)

    def begin(self) -> None:
        remove_images(self._daemon, self._here)

    def check(self) -> Iterator[str]:
        if our_images(self._daemon, self._here) - self._digest:
            yield "another image has our tag"

    def check_end(self) -> Iterator[str]:
        yield from faults_of_engine(self._daemon, self._here, self._digest)


def victims(kinds: Sequence[str], folder: Path, stack: ExitStack) -> Iterator[Victim]:
    """Each kind in turn; those that need an engine only where there can be one."""
    if "cpu" in kinds:
        yield Bench("cpu", folder, ("--local",), 8.0)
    if "board" in kinds:
        root = stack.enter_context(running(create_board("agx-orin", folder / "agx")))
        options = ("--local", "--board", str(root), "--mode", "30W,MAXN")
        yield Bench("board", folder, options, 12.0, {"agx": root})
    if "merge" in kinds:
        yield Merge(folder)
    if "report" in kinds:
        yield Page(folder)
    if {"container", "fleet", "build", "load"} & set(kinds):
        reason = why_not()
        if reason is None:
            yield from _with_engine(kinds, folder, stack)
        else:
            sys.stderr.write(f"without an engine: {reason}\n")


def _with_engine(kinds: Sequence[str], folder: Path, stack: ExitStack) -> Iterator[Victim]:
    daemon = stack.enter_context(throwaway_daemon())
    (folder / "image").mkdir()
    here = build_here(daemon.address, folder / "image")
    images = ("--images", str(here.table), "--offline")
    if "container" in kinds:
        root = stack.enter_context(running(create_board("orin-nano-super", folder / "nano")))
        board = ("--board", str(root), "--mode", "15W,25W", "--container-engine", daemon.address)
        yield Bench("container", folder, (*images, *board), 14.0, {"nano": root})
    if "fleet" in kinds:
        boards = {
            name: stack.enter_context(running(create_board(name, folder / "fleet-boards" / name)))
            for name in ("agx-orin", "xavier-nx")
        }
        hosts = folder / "hosts.toml"
        entry = '[boards.{}]\ndocker = "{}"\nroot = "{}"\n'
        hosts.write_text("".join(entry.format(n, daemon.address, r) for n, r in boards.items()))
        fleet = ("--host", ",".join(boards), "--hosts-file", str(hosts))
        yield Bench("fleet", folder, (*images, *fleet), 20.0, boards)
    if "build" in kinds:
        yield Build(folder, daemon, here)
    if "load" in kinds:
        yield Load(folder, daemon, here)


def complete_lines(path: Path) -> list[bytes]:
    """The header and the rows that have their end; of a kill in mid-line the last one has none."""
    if not path.exists():
        return []
    return path.read_bytes().split(b"\n")[:-1]


def digests(folder: Path) -> dict[Path, str]:
    """Of every run's own files."""
    names = ("manifest.json", "trials.jsonl")
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("*/*")
        if path.name in names
    }


def merged_rows(place: Path) -> list[Any]:
    """Every trial of a dataset, in order."""
    from mansard.analytics.data.opening import open_runs

    try:
        return sorted(open_runs([str(place)]).trials.select("run_id", "trial_id").rows())
    except MansardError as error:
        return [str(error)]


def remove_images(daemon: Daemon, here: Here) -> None:
    """Remove what has the tag of our image."""
    client = daemon.connect()
    for image in our_images(daemon, here):
        client.images.remove(image, force=True)
    client.close()


def our_images(daemon: Daemon, here: Here) -> set[str]:
    """Ids of what has the tag of our image."""
    client = daemon.connect()
    try:
        return {image.id for image in client.images.list() if here.built.tag in image.tags}
    finally:
        client.close()


def faults_of_engine(daemon: Daemon, here: Here, wanted: set[str] | None) -> Iterator[str]:
    """Containers and unnamed images that are left, and an image of ours that is not there."""
    client = daemon.connect()
    try:
        yield from (f"container left: {one['Names']}" for one in client.api.containers(all=True))
        unnamed = client.images.list(filters={"dangling": True})
        yield from (f"image without a name left: {one.short_id}" for one in unnamed)
    finally:
        client.close()
    found = our_images(daemon, here)
    if not found or (wanted is not None and found != wanted):
        yield f"the image is not there: {found}"
