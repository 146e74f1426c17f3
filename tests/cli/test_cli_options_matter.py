"""Every option of a command that measures nothing changes what it prints, or is refused.

A new option without a row here fails; so does one that something else replaces without a word.
Each row is a command line that differs from its base by that option alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from mansard.cli.__main__ import run, with_groups
from mansard.cli.app import make_app
from mansard.cli.needed import NEEDED
from mansard.simulator import create_board
from tests.analytics.board_runs import write_board
from tests.cli.decide_runs import published_runs
from tests.cli.in_process import streams

# Options that allow or speed up something; without an obstacle there is nothing to see.
PERMISSIONS = {
    "--force",
    "--jobs",
    "--dask",
    "--allow-unknown",
    "--upper-bounds",
    "--allow-mixed",
    "--yes",
}
# By command: its base, and by option the words that follow it. A row (base, words) has its own.
_Row = str | tuple[str, str]
_RECOMMEND = "recommend seen --runs runs"
_MIXED = "recommend --runs runs --workload mix.toml"
ROWS: dict[str, tuple[str, dict[str, _Row]]] = {
    "score": (
        "score squeezenet1_1",
        {
            "--batch": "4",
            "--dim": "batch=3",
            "--trip": "loop=2",
            "--value": "image=2",
            "--shape": "image=2x3x224x224",
            "--prefill": ("score gpt2", "--prefill 8"),
            "--decode": ("score gpt2", "--decode 8"),
            "--kv-cache": "copied",
            "--precision": "fp16",
            "--phase": "training",
            "--optimizer": ("score squeezenet1_1 --phase training", "--optimizer adam"),
            "--recompute": ("score squeezenet1_1 --phase training", "--recompute"),
            "--cache": "4MiB",
            "--format": "csv",
            "--layers": "",
            "--output": ("score squeezenet1_1 --format csv", "--output out.csv"),
            "--html": "page.html",
            "--runs": "runs",
            "--json": "",
        },
    ),
    "recommend": (
        _RECOMMEND,
        {
            "--runs": ("recommend seen", "--runs more"),
            "--max-latency": "6ms",
            "--max-power": "6W",
            "--max-energy": "40mJ",
            "--min-fps": "200",
            "--min-tokens-per-s": "200",
            "--max-first-token": "1s",
            "--context": "4k",
            "--prompt": "256",
            "--max-drop": "1%",
            "--minimise": "latency",
            "--batch": "8",
            "--precision": "int8",
            "--dim": "sequence=9",
            "--phase": "training",
            "--probability": (f"{_RECOMMEND} --max-latency 4.2ms -v", "--probability 0.99"),
            "--mode": "gpu400-emc800",
            "--device": "Orin",
            "--default": "gpu400-emc800",
            "--workload": ("recommend --runs runs", "--workload mix.toml"),
            "--battery": (_MIXED, "--battery 99Wh"),
            "--rest-power": (f"{_MIXED} --battery 99Wh", "--rest-power 4W"),
            "--efficiency": (f"{_MIXED} --battery 99Wh", "--efficiency 0.9"),
            "--calibrate": "",
            "--measure": "1",
            "--local": "",
            "--dry-run": "",
            "--board": (f"{_RECOMMEND} --mode all", "--board board"),
            "--check": (f"{_RECOMMEND} --max-latency 1us", "--check"),
            "--all": "",
            "--json": "",
        },
    ),
    "batch": (
        "batch seen --runs runs",
        {
            "--runs": ("batch seen", "--runs more"),
            "--batch": "2",
            "--context": "4k",
            "--prompt": "256",
            "--mode": "measured",
            "--precision": "int8",
            "--dim": "sequence=9",
            "--phase": "training",
            "--device": "Orin",
            "--calibrate": "",
            "--board": "board",
            "--json": "",
        },
    ),
    "plan": (
        "plan --mode modes.csv --runs few",
        {
            "--runs": ("plan --mode modes.csv", "--runs few"),
            "--mode": ("plan --runs few", "--mode modes.csv"),
            "--next": "2",
            "--minimise": "latency",
            "--max-latency": "5ms",
            "--max-power": "6W",
            "--network": "other",
            "--device": "Orin",
            "--board": ("plan", "--board board"),
            "--json": "",
        },
    ),
    "report": (
        "report --runs runs",
        {
            "--runs": ("report", "--runs more"),
            "--output": "other.html",
            "--mode": ("report --runs few", "--mode modes.csv"),
            "--board": "board",
            "--batch": ("report squeezenet1_1 --runs runs", "--batch 2"),
            "--precision": ("report squeezenet1_1 --runs runs", "--precision fp16"),
            "--all": ("report --runs measured", "--all"),
            "--json": "",
        },
    ),
    "modes": (
        "modes",
        {"--board": "board", "--config": "board/etc/nvpmodel.conf", "--json": ""},
    ),
    "telemetry": (
        "telemetry log",
        {
            "--live": "",
            "--interval": "3s",
            "--duration": "3s",
            "--samples": "",
            "--format": "csv",
            "--output": ("telemetry log --format csv", "--output out.csv"),
            "--board": "board",
            "--json": "",
        },
    ),
}
_MIX = 'idle = "4W"\n[[network]]\nmodel = "seen"\nrate = "5/s"\n'
_LOG = "RAM 1000/2000MB (lfb 1x1MB) CPU [10%@1000] GR3D_FREQ 5% VDD_IN 4000mW/4000mW\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options")
    with streams():
        table = published_runs(place / "runs") / "table.csv"
        head, *lines = table.read_text(encoding="utf-8").splitlines()
        create_board("agx-orin", place).rename(place / "board")
        write_board(place / "measured")
        for name, of_name in (("few", lines[::3]), ("more", lines[:4])):
            (place / f"{name}.csv").write_text("\n".join([head, *of_name]) + "\n", "utf-8")
            words = ["import", str(place / f"{name}.csv"), "--citation", "made up"]
            assert run([*words, "--device", "Jetson Madeup", "--runs", str(place / name)]) == 0
    modes = [line.split(",")[:3] for line in (head, *lines)]
    (place / "modes.csv").write_text("\n".join(map(",".join, modes)) + "\n", "utf-8")
    (place / "mix.toml").write_text(_MIX, "utf-8")
    (place / "log").write_text(5 * _LOG, "utf-8")
    return place


class Shown(NamedTuple):
    """What a command leaves behind."""

    code: int
    out: str
    err: str
    files: frozenset[tuple[str, str]]  # names and contents


def show(line: str, folder: Path) -> Shown:
    before, now = set(folder.rglob("*")), Path.cwd()
    os.chdir(folder)
    try:
        with streams() as printed:
            code = run(line.split())
    finally:
        os.chdir(now)
    made = {path for path in folder.rglob("*") if path not in before and path.is_file()}
    files = {(str(path), sha256(path.read_bytes()).hexdigest()) for path in made}
    for path in made:
        path.unlink()
    return Shown(code, *printed.texts(), frozenset(files))


def _cases() -> Iterator[tuple[str, str]]:
    for base, rows in ROWS.values():
        for option, row in rows.items():
            words = f"{option} {row}" if isinstance(row, str) else row[1]
            yield (base if isinstance(row, str) else row[0]), words


@pytest.mark.parametrize(("base", "words"), list(_cases()))
def test_an_option_changes_something_or_is_refused(base: str, words: str, folder: Path) -> None:
    without, with_option = show(base, folder), show(f"{base} {words}", folder)
    assert with_option != without


def _found(group: Any, name: str) -> Any:
    """The command of a short name."""
    for word in with_groups([name]):
        group = group.commands[word]
    return group


def test_every_option_of_these_commands_is_in_the_table() -> None:
    application: Any = typer.main.get_command(make_app())
    options = {
        (command, parameter.opts[0])
        for command in ROWS
        for parameter in _found(application, command).params
        if parameter.param_type_name == "option"
    }
    known = {(command, option) for command, (_, rows) in ROWS.items() for option in rows}
    lacking = {(name, option) for name, option in options - known if option not in PERMISSIONS}
    assert lacking == {(name, "--help") for name in ROWS} & lacking
    assert known <= options


# One line for each rule of ``NEEDED``: its first option where it has no effect.
REFUSED = (
    ("bench --hosts-file x.toml", "--hosts-file has no effect without --host"),
    ("recommend --battery 9Wh", "--battery has no effect without --workload"),
    (
        "recommend --workload x.toml --efficiency 0.9",
        "--efficiency has no effect without --battery",
    ),
    ("measure resnet18 --local --image cpu", "--image has no effect with --local"),
    ("contention --pick 3", "--pick has no effect without several modes"),
    ("restore --images own.toml", "--images has no effect without --host"),
    ("restore --host a --board b", "--board has no effect with --host"),
    ("batch resnet18 --board b", "--board has no effect without modes"),
    ("score resnet18 --format csv --json", "--json has no effect with another --format"),
    ("watch --once --interval 2s", "--interval has no effect with --once"),
    ("measure resnet18 --no-fallback", "--no-fallback has no effect without --dla"),
    ("export a.py:f -o f.onnx --no-check --tolerance 0.1", "--tolerance has no effect"),
    ("schedule p.toml --duration 3", "--duration has no effect without --run"),
    ("recommend resnet18 --local", "--local has no effect without --measure"),
    ("recommend resnet18 --probability 0.5", "--probability has no effect without a limit"),
)


@pytest.mark.parametrize(("line", "fault"), REFUSED)
def test_an_option_without_an_effect_is_refused(line: str, fault: str, folder: Path) -> None:
    shown = show(line, folder)
    assert (shown.code, shown.files) == (2, frozenset())
    assert fault in shown.err


def test_every_rule_is_tried() -> None:
    assert len(REFUSED) == len(NEEDED)


def test_options_of_a_group_do_not_get_lost(folder: Path) -> None:
    shown = show("demo --json simulated", folder)
    assert (shown.code, shown.out) == (2, "") or '"error"' in shown.out
    assert "options of simulated come after it" in shown.err
