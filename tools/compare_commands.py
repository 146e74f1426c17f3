"""Record what many ``mansard`` commands print and write, and compare two such recordings.

    python tools/compare_commands.py record OLD.json --python ../old/.venv/bin/python
    python tools/compare_commands.py record NEW.json
    python tools/compare_commands.py compare OLD.json NEW.json

``tools/command_inputs/commands.txt`` lists the commands and says how they are written; its folder
holds their inputs. What differs between two runs of the same code (dates, folders, process ids,
times of this machine) is replaced before it is recorded. ``reasons.toml`` there names what differs
on purpose: lines ``"part of a command" = "reason"``. A reason that begins with ``words:``
covers sentences alone: of pages, of text on stdout, of fields such as ``why``; not their data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

Record = dict[str, Any]  # exit, stdout, stderr, files: path -> content, seconds

INPUTS = Path(__file__).resolve().parent / "command_inputs"
SHARED = INPUTS.parents[2] / "shared/data"
TIMEOUT_S = 600
# A board that acts until stdin ends. The simulator was a part of the room device.
BOARD = """
import json, sys
from pathlib import Path
try:
    from mansard.simulator import create_board, running, set_fault
except ImportError:
    from mansard.device.simulator import create_board, running, set_fault
with running(create_board(sys.argv[1], Path(sys.argv[2]))) as root:
    for fault in sys.argv[3:]:
        name, _, value = fault.partition("=")
        set_fault(root, name, json.loads(value))
    print("ready", flush=True)
    sys.stdin.read()
"""
# Checks of doctor whose result depends on this computer, not on the board.
HOST_CHECKS = "Python|other load|disk|kernels|pinned threads|GPU processes|containers|container "
HOST_CHECKS += "image|image disk"
# What stays equal of a run and its trials when it is measured again.
IDENTITY = (
    *("run_id", "trial_id", "source", "kernel", "family", "processor", "backend"),
    *("precision", "fma_per_element", "operands", "scope", "memory", "cpus", "working_set_bytes"),
    *("work_flop", "traffic_bytes", "traffic_counting", "source_hash", "plan_hash", "versions"),
    *("machine", "mode_requested", "mode_read_back", "profile", "n_trials", "meters", "seed"),
    *("meters_missing", "total_rails", "total_rule", "boundary", "image", "image_digest"),
)
VARYING = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z|[+-]\d\d:\d\d)?", "DATE"),
    (r'"commit": "[^"]*"', '"commit": "COMMIT"'),
    (r"(?m)^\w[^\n]*: \d+ of \d+[^\n]* \([^\n]*\)\n", ""),  # progress
    (r"process \d+", "process PID"),
    # the width and the stores that were faster, and the state of a simulated board
    (r"(non-temporal|plain) stores; vectors of \d+ bytes", "STORES"),
    (r"vectors of \d+ bytes", "VECTORS"),
    (r"[\d.]+ °C", "HEAT"),
    (r"is [\d.]+ W, but its parts ([\w +]+) are [\d.]+ W", r"is POWER, but its parts \1 are POWER"),
)


def record(out: Path, python: Path, only: str, jobs: int) -> int:
    """Run the commands of the sections whose name holds ``only``, and write OUT."""
    start_s = time.monotonic()
    sections: dict[str, list[str]] = {}
    for line in (INPUTS / "commands.txt").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\[(.+)\]", line):
            lines = sections.setdefault(heading[1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    with (
        tempfile.TemporaryDirectory(prefix="mansard-commands-") as scratch,
        ThreadPoolExecutor(jobs) as pool,
    ):
        names = [name for name in sections if only in name]
        # A section goes to the first worker that is free, so that the last ones should be short.
        parts = pool.map(
            lambda name: Section(name, Path(scratch), python).run(sections[name]), names
        )
        found = {command: one for part in parts for command, one in part.items()}
    out.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    print(f"{len(found)} commands in {time.monotonic() - start_s:.0f} s: {out}")
    return 0


class Section:
    """Commands that run one after another in a folder of their own."""

    def __init__(self, name: str, scratch: Path, python: Path) -> None:
        self.name, self.python = name, python
        self.scratch, self.folder = scratch, scratch / re.sub(r"\W+", "_", name)
        self.found: dict[str, Record] = {}
        self.is_measured = False
        threads = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        self.environment = dict.fromkeys(threads, "1") | {
            "PATH": os.environ["PATH"],
            "COLUMNS": "140",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(scratch / "home"),
            "XDG_STATE_HOME": str(scratch / "state"),
        }

    def run(self, lines: Sequence[str]) -> dict[str, Record]:
        """What each command did."""
        self._unpack(lines)
        with ExitStack() as boards:
            for line in lines:
                command, *words = shlex.split(line)
                if command == "@sh":
                    text = line.removeprefix("@sh")
                    subprocess.run(["sh", "-c", text], cwd=self.folder, check=True)
                elif command == "@board":
                    boards.enter_context(self._board(line.split()[1:]))
                elif command == "@shared":
                    if not (SHARED / words[0]).is_dir():
                        print(f"{self.name}: left out, there is no ../shared/data/{words[0]}")
                        break
                    (self.folder / words[0]).symlink_to(SHARED / words[0])
                elif command == "@measured":
                    self.is_measured = True
                elif command == "@help":
                    self._help(())
                elif line.endswith(" +json"):
                    self._command([command, *words[:-1]])
                    self._command([command, *words[:-1], "--json"])
                else:
                    self._command([command, *words])
        return self.found

    def _unpack(self, lines: Sequence[str]) -> None:
        shutil.copytree(INPUTS, self.folder, ignore=shutil.ignore_patterns("*.xz", "commands.txt"))
        for name in ("runs", "nodes"):
            if any(f"{name}/" in line for line in lines):
                with tarfile.open(INPUTS / f"{name}.tar.xz") as archive:
                    archive.extractall(self.folder, filter="data")

    @contextmanager
    def _board(self, arguments: Sequence[str]) -> Iterator[None]:
        command = [str(self.python), "-c", BOARD, arguments[0], str(self.folder), *arguments[1:]]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=self.environment) as process:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                raise SystemExit(f"{self.name}: the simulated board {arguments[0]} does not start")
            time.sleep(0.5)  # until the simulator has acted on the faults
            yield
            process.communicate()

    def _help(self, command: Sequence[str]) -> None:
        """``--help`` of ``command`` and of all commands that it lists."""
        printed = self._command([*command, "--help"])
        _, _, listed = printed.partition("\nCommands:\n")
        for name in re.findall(r"(?m)^  (\w[\w-]*)  ", listed.partition("\n\n")[0]):
            self._help((*command, name))

    def _command(self, words: Sequence[str]) -> str:
        given = None
        if "<" in words:
            *words, _, source = words
            given = (self.folder / source).read_text()
        before, start_s = self._files(), time.monotonic()
        done = subprocess.run(
            [str(self.python), "-m", "mansard.cli", *words],
            cwd=self.folder,
            env=self.environment,
            timeout=TIMEOUT_S,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        changed = sorted(path for path, size in self._files().items() if before.get(path) != size)
        one: Record = {
            "exit": done.returncode,
            "stdout": self._plain(self._stdout(words, done.stdout)),
            "stderr": self._plain(done.stderr),
            "files": {
                str(path.relative_to(self.folder)): self._plain(self._content(path))
                for path in changed
                if path.suffix != ".parquet" or not self.is_measured
            },
            "seconds": time.monotonic() - start_s,
        }
        if self.is_measured:  # what it says beside the numbers: names of fields and columns
            kept = re.findall(r'(?m)"\w+"(?=: )|^.*(?=\n─)|^\w+: ', one["stdout"])
            one["stdout"] = "\n".join(sorted({" ".join(line.split()) for line in kept}))
            one["stderr"] = re.sub(r"(?m)^note: .*\n|\d+", "", one["stderr"])
        self.is_measured = False
        name = f"{self.name}: mansard {shlex.join(words)}"
        again = sum(key.partition("  # ")[0] == name for key in self.found)
        self.found[f"{name}  # again {again}" if again else name] = one
        return done.stdout

    def _files(self) -> dict[Path, tuple[int, int]]:
        """Size and time of each file that commands may write; boards change by themselves."""
        boards = [path.parents[1] for path in self.folder.glob("*/run/mansard-simulator")]
        return {
            path: (path.stat().st_size, path.stat().st_mtime_ns)
            for top in self.folder.iterdir()
            if top not in boards and not top.is_symlink()
            for path in (top, *top.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    def _plain(self, text: str) -> str:
        """``text`` without what differs from run to run."""
        text = text.replace(str(self.scratch), "SCRATCH")
        for folder in self.python.parents[1:3]:
            text = text.replace(str(folder), "REPOSITORY")
        for pattern, word in VARYING:
            text = re.sub(pattern, word, text)
        return text

    def _stdout(self, words: Sequence[str], text: str) -> str:
        """JSON over many lines; of doctor the checks of the board."""
        try:
            document = json.loads(text)
        except ValueError:
            if words[0] != "doctor":
                return text
            checks = re.findall(r"(?m)^\w+ +(?:.*)(?:\n .*)*", text)
            return "\n".join(
                check for check in checks if not re.match(rf"\w+ +({HOST_CHECKS})  ", check)
            )
        if words[0] == "doctor":
            own = HOST_CHECKS.split("|")
            document["checks"] = [one for one in document["checks"] if one["name"] not in own]
        return _pretty(document)

    def _content(self, path: Path) -> str:
        """What a file says, as text that can be compared line by line."""
        kind = path.suffix
        if self.is_measured and (kind == ".html" or path.name == "samples.jsonl"):
            return "(depends on what was measured)"
        if kind == ".html":
            return _page(path.read_text(encoding="utf-8"))
        if kind == ".parquet":
            return _frame(path)
        if kind in {".json", ".jsonl"}:
            text = path.read_text(encoding="utf-8")
            documents = (
                [json.loads(text)] if kind == ".json" else map(json.loads, text.splitlines())
            )
            if self.is_measured and path.name != "scores.jsonl":
                rows = (document.get("content", document) for document in documents)
                kept = ({name: row[name] for name in IDENTITY if name in row} for row in rows)
                return "\n".join(sorted(map(_pretty, kept)))
            return "\n".join(map(_pretty, documents))
        data = path.read_bytes()
        return hashlib.sha256(data).hexdigest() if b"\0" in data else data.decode()


def _pretty(document: object, indent: str = "") -> str:
    """JSON, what is short on one line."""
    short = json.dumps(document, ensure_ascii=False)
    if len(short) < 160 or not isinstance(document, (dict, list)):
        return short
    inner = indent + " "
    if isinstance(document, list):
        items = [_pretty(item, inner) for item in document]
    else:
        items = [f"{json.dumps(key)}: {_pretty(item, inner)}" for key, item in document.items()]
    opening, closing = "[]" if isinstance(document, list) else "{}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"


def _frame(path: Path) -> str:
    import polars as pl

    frame = pl.read_parquet(path)
    rows = frame.write_ndjson()
    digest = hashlib.sha256(rows.encode()).hexdigest()
    columns = "\n".join(map(str, frame.schema.items()))
    return f"{frame.height} rows {digest}\n{columns}\n{rows[:2000]}"


class _Page(HTMLParser):
    """Texts, tags and data of a page; of code and styles a digest."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kind = dict(attrs).get("type") or tag
        kept = [f"{name}={value}" for name, value in attrs if name not in {"style", "d"}]
        self.lines.append(f"<{' '.join([tag, *kept])}>")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.kind = ""

    def handle_data(self, data: str) -> None:
        if self.kind in {"script", "style"}:
            self.lines.append(hashlib.sha256(data.encode()).hexdigest())
        elif self.kind == "application/json":
            document = json.loads(data)
            tables = document.values() if isinstance(document, dict) else ()
            for table in tables:  # scripts look columns up by name: no order is meant
                if isinstance(table, dict) and isinstance(table.get("columns"), dict):
                    table["columns"] = dict(sorted(table["columns"].items()))
            self.lines.append(_pretty(document))
        elif data.strip():
            self.lines.append(" ".join(data.split()))


def _page(text: str) -> str:
    page = _Page()
    page.feed(text)
    return "\n".join(page.lines)


def compare(given: argparse.Namespace) -> int:
    """Print what differs; 1 if something does that the file of reasons does not name."""
    old, new = (
        {
            name: one
            for name, one in json.loads(path.read_text()).items()
            if given.only in name.partition(":")[0]
        }
        for path in (given.first, given.second)
    )
    # Lines "part of a command" = "reason". Python 3.10 has no tomllib.
    pairs = re.findall(r'(?m)^"(.+)" = "(.+)"$', given.reasons.read_text(encoding="utf-8"))
    named: dict[str, str] = dict(pairs)
    used, n_differ, n_named = set(), 0, 0
    for command in dict.fromkeys((*old, *new)):
        one, other = (_lines(side.get(command)) for side in (old, new))
        if one == other:
            continue
        print(f"\n=== {command}")
        found = [part for part in named if part in command]
        is_words = any(named[part].startswith("words:") for part in found)
        if is_words and _data(one) != _data(other):
            found, one, other = [], _data(one), _data(other)
        used |= set(found)
        n_named, n_differ = n_named + bool(found), n_differ + (not found)
        for part in found:
            print(f"    expected: {named[part]}")
        lines = _difference(one, other)
        for line in lines[: 6 if found else given.lines]:
            print(f"    {line[:400]}")
        if len(lines) > given.lines:
            print(f"    … {len(lines):,} lines in all; --lines shows more")
    if not given.only:
        for part in sorted(named.keys() - used):
            print(f"\nno command with {part!r} differs: its reason can go")
    print(f"\n{len(old)} and {len(new)} commands: {n_differ} differ, {n_named} for a named reason")
    return int(n_differ > 0)


def _lines(one: Record | None) -> list[str]:
    if one is None:
        return ["(there is no such command)"]
    texts = {"exit code": str(one["exit"]), "stdout": one["stdout"], "stderr": one["stderr"]}
    texts |= one["files"]
    # A list of plain values is one line.
    values = r'\n +(?=(?:-?\d[\w.+-]*|null|true|false|"[^"\n]*"),?\n)'
    return [
        f"{name}| {line}"
        for name, text in texts.items()
        for line in re.sub(values, " ", text).splitlines() or [""]
    ]


def _data(lines: Sequence[str]) -> list[str]:
    """``lines`` without sentences: those of pages, of tables and text, and of some JSON fields."""
    is_json = any(re.match(r"stdout\| [{\[]$", line) for line in lines)
    sentences = (
        r"[^|]*\.html\|(?! *[{}\[\]\"])",
        r"stdout\| *(\"(sentence|why|why_lost|baseline|notes)\":|[}\]],?$)"
        if is_json
        else r"stdout\|",
        r"stderr\| note: ",
    )
    return [line for line in lines if not any(re.match(each, line) for each in sentences)]


def _difference(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """A unified diff by diff(1), as difflib takes minutes for long outputs."""
    with tempfile.TemporaryDirectory() as name:
        sides = [Path(name, side) for side in ("first", "second")]
        for path, lines in zip(sides, (one, other), strict=True):
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = ["diff", "-U2", *map(str, sides)]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = found.splitlines()[2:]
    for at, line in enumerate(lines):  # of a long line that was replaced, where it differs
        before = lines[at - 1] if at else ""
        pairs = enumerate(zip(before[1:], line[1:], strict=False))
        common = next((n for n, (one, other) in pairs if one != other), 0)
        if before[:1] == "-" and line[:1] == "+" and common > 100:
            title = line[1 : line.index("|") + 2]
            for n, text in ((at - 1, before), (at, line)):
                lines[n] = f"{text[0]}{title}… {text[common - 30 :]}"
    return lines


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run every command and write what it did")
    recording.add_argument("out", type=Path)
    recording.add_argument("--python", type=Path, default=Path(sys.executable))
    recording.add_argument("--only", default="", help="sections whose name holds this")
    recording.add_argument("--jobs", type=int, default=2, help="sections at a time")
    comparing = commands.add_parser("compare", help="print what differs; exit code 1 if any does")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--only", default="", help="sections whose name holds this")
    comparing.add_argument("--reasons", type=Path, default=INPUTS / "reasons.toml")
    comparing.add_argument("--lines", type=int, default=40, help="of each difference")
    given = parser.parse_args()
    if given.command == "record":
        return record(given.out, given.python.absolute(), given.only, given.jobs)
    return compare(given)


if __name__ == "__main__":
    sys.exit(main())
