"""Grids of modes from TOML files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import InputError, MansardError, StorageError
from mansard.core.power_mode import core_count_mode
from mansard.device.power_modes.custom_modes import custom_mode, exact_point
from mansard.device.power_modes.grid import Grid, ValueRange, grid_points, read_grid, snap
from mansard.device.power_modes.selection import choose_modes
from mansard.device.power_modes.settable import CoreGroup, ModeChoices, ValueTable, WrittenValue
from tests.device.grid_machines import add_cpufreq, machine

MHZ = 1e6
CPU = ValueTable(tuple(MHZ * step for step in (700, 1000, 1300, 1600, 2000)))
ORIN_NANO_LIKE = ModeChoices(
    present=core_count_mode(6),
    cpus=(0, 1, 2, 3, 4, 5),
    clusters=(CoreGroup((0, 1, 2, 3), CPU), CoreGroup((4, 5), CPU)),
    cpu=CPU,
    gpu=ValueTable(tuple(MHZ * step for step in (306, 408, 510, 612, 1020))),
    emc=ValueTable((2133e6, 3199e6)),
    dla=ValueTable(why_not="this board has none"),
)


def grid_of(text: str, folder: Path) -> Grid:
    path = folder / "grid.toml"
    path.write_text(text)
    return read_grid(path, ORIN_NANO_LIKE)


def axis(text: str, folder: Path, key: str = "gpu") -> list[float]:
    """The values of one axis, in MHz where it is a clock."""
    unit = 1 if key == "cores" else MHZ
    return [value / unit for value in grid_of(text, folder).axes[key]]


@pytest.mark.parametrize(
    ("text", "mhz"),
    [
        ('gpu = ["612MHz", "306MHz", "612 mhz"]', [306, 612]),
        ('gpu = "1.02GHz"', [1020]),
        ('gpu = "all"', [306, 408, 510, 612, 1020]),
        ('gpu = { from = "400MHz", to = "600MHz" }', [408, 510]),
        ('gpu = { to = "408MHz" }', [306, 408]),
        # 306, 484.5 (nearer to 510), 663 (nearer to 612), 841.5 (nearer to 1020), 1020
        ('gpu = { from = "306MHz", to = "1020MHz", points = 5 }', [306, 510, 612, 1020]),
        # 306, 506, 706, 906: nearest to 306, 510, 612, 1020
        ('gpu = { from = "306MHz", to = "1020MHz", step = "200MHz" }', [306, 510, 612, 1020]),
        ('gpu = { from = "500MHz", to = "550MHz", points = 3 }', [510]),  # none from outside
        ('gpu = { from = "612MHz", to = "612MHz", points = 1 }', [612]),
    ],
)
def test_lists_and_ranges_take_available_frequencies(
    text: str, mhz: list[float], tmp_path: Path
) -> None:
    assert axis(text, tmp_path) == mhz


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("cores = [4, 2, 6]", [2, 4, 6]),
        ("cores = 3", [3]),
        ('cores = "all"', [1, 2, 3, 4, 5, 6]),
        ("cores = { from = 2, to = 6, step = 2 }", [2, 4, 6]),
        ("cores = { from = 1, to = 6, points = 2 }", [1, 6]),
    ],
)
def test_cores_are_counted(text: str, cores: list[int], tmp_path: Path) -> None:
    assert axis(text, tmp_path, "cores") == cores


def test_a_grid_is_every_combination_but_the_excluded(tmp_path: Path) -> None:
    grid = grid_of(
        """
        gpu = ["306MHz", "1020MHz"]
        memory = "all"           # another word for emc
        cores = [2, 6]

        [[exclude]]              # fast GPU beside slow memory
        gpu = { from = "1GHz" }
        emc = "2133MHz"

        [[exclude]]
        cores = 2
        gpu = "306MHz"
        """,
        tmp_path,
    )
    points = grid_points(grid, ORIN_NANO_LIKE)
    # 2 × 2 × 2 = 8, less 2 (1020 with 2133) and 2 (306 with 2 cores)
    assert points == (
        (306e6, 2133e6, 6),
        (306e6, 3199e6, 6),
        (1020e6, 3199e6, 2),
        (1020e6, 3199e6, 6),
    )


def test_a_sixty_thousand_mode_grid_is_thinned() -> None:
    axes = {
        "gpu": tuple(MHZ * (100 + 10 * step) for step in range(50)),
        "emc": tuple(MHZ * (1000 + 100 * step) for step in range(10)),
        "cpu": tuple(MHZ * (500 + 100 * step) for step in range(20)),
        "cores": tuple(float(count) for count in range(1, 7)),
    }
    points = grid_points(Grid(axes), ORIN_NANO_LIKE)
    # The CPU's clocks above 2000 MHz and those between its five steps are steps of lower ones.
    assert len(points) == 50 * 10 * 5 * 6
    wide = ValueTable(axes["cpu"])
    choices = ModeChoices(
        present=core_count_mode(6),
        cpus=ORIN_NANO_LIKE.cpus,
        clusters=(CoreGroup(ORIN_NANO_LIKE.cpus, wide),),
        cpu=wide,
        gpu=ValueTable(axes["gpu"]),
        emc=ValueTable(axes["emc"]),
        dla=ORIN_NANO_LIKE.dla,
    )
    points = grid_points(Grid(axes), choices)
    assert len(points) == 60_000
    modes = {
        custom_mode(exact_point(dict(zip(axes, point, strict=True))), choices).name
        for point in points
    }
    assert len(modes) == 60_000


def test_the_modes_of_a_grid_come_in_an_order_that_repeats(tmp_path: Path) -> None:
    add_cpufreq(tmp_path, ((0, 1, 2, 3),), (tuple(range(1_000_000, 2_000_000, 50_000)),))
    path = tmp_path / "grid.toml"
    path.write_text('cpu = "all"\ncores = "all"\n')
    modes = choose_modes(str(path), tmp_path, machine(4), seed=1)
    assert len(modes) == len({mode.name for mode in modes}) == 80
    assert modes == choose_modes(str(path), tmp_path, machine(4), seed=1)
    other = choose_modes(str(path), tmp_path, machine(4), seed=2)
    assert other != modes
    assert {mode.name for mode in other} == {mode.name for mode in modes}
    picked = choose_modes(str(path), tmp_path, machine(4), pick=12, seed=1)
    assert len(picked) == 12
    assert {mode.name for mode in picked} <= {mode.name for mode in modes}
    assert {"cpu1000MHz_1c", "cpu1950MHz_4c"} <= {mode.name for mode in picked}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('# c\ngpu = ["613MHz"]', 2, "gpu has no 613MHz; available, nearest first: 612MHz, 510MHz"),
        ("\n\ncores = [2, 8]", 3, "8 cores cannot be on; use 1 to 6"),
        ("gpu = 612", 1, "gpu has 612, which has no unit"),
        ("gpu = true", 1, "gpu has True, which has no unit"),
        ("cores = true", 1, "True is not a number of cores"),
        ("cores = 0", 1, "0 is not a number of cores"),
        ("gpu = []", 1, "gpu is an empty list"),
        (
            'gpu = { from = "700MHz", to = "900MHz" }',
            1,
            "nothing that is available is in this range",
        ),
        ('gpu = { from = "2GHz", to = "1GHz" }', 1, "gpu goes from 2000MHz down to 1000MHz"),
        ('gpu = { from = "1GHz", till = "2GHz" }', 1, "gpu is not a range"),
        ('gpu = { points = 5, step = "1MHz" }', 1, "gpu is not a range"),
        ("gpu = { points = 0 }", 1, "no number of points"),
        ('gpu = { step = "1Hz" }', 1, "more than 10000 steps"),
        ('dla = "all"', 1, "dla cannot be set on this machine; this board has none"),
        ('gpu = "all"\nfan = 3', 2, "'fan' is not a setting"),
        ("sms = 4", 1, "sms cannot be set"),
        ('emc = "all"\nmemory = "all"', 2, "emc is set twice"),
        ('gpu = "all"\n[[exclude]]\ngpu = "7MHz"', 3, "gpu has no 7MHz"),
        ('gpu = "all"\n[[exclude]]\ncores = 2', 3, "excludes by cores, which the grid does not"),
        ('gpu = "all"\ngpu = "all"', 2, "is not TOML"),
        ("gpu = [", 1, "is not TOML"),
    ],
)
def test_a_slip_in_the_file_is_shown_with_its_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        grid_of(text, tmp_path)
    assert message in str(caught.value)
    assert caught.value.where == f"{tmp_path}/grid.toml:{line}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is an empty grid; set one of gpu, emc, cpu, dla, cores"),
        ("exclude = 3\ngpu = 'all'", "'exclude' is not a table"),
        ("gpu = 'all'\n[[exclude]]\n", r"has an empty \[\[exclude\]\]"),
        ("\x00", "is not TOML"),
    ],
)
def test_a_file_that_is_no_grid_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        grid_of(text, tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        choose_modes(str(tmp_path / "none.toml"), tmp_path, machine(2))
    (tmp_path / "binary.toml").write_bytes(b"gpu = '\xff\xfe'")
    with pytest.raises(InputError, match="is not a text file"):
        choose_modes(str(tmp_path / "binary.toml"), tmp_path, machine(2))


def test_a_python_without_toml_says_what_to_do(tmp_path: Path) -> None:
    # Python 3.10, which JetPack 6 has, comes without a reader of TOML.
    path = tmp_path / "grid.toml"
    path.write_text("cores = 1")
    code = f"""
import sys
sys.modules["tomllib"] = sys.modules["tomli"] = None
from pathlib import Path
from mansard.core.errors import UsageError
from mansard.device.power_modes.selection import choose_modes
from tests.device.grid_machines import machine
try:
    choose_modes({str(path)!r}, Path({str(tmp_path)!r}), machine(2))
except UsageError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert "need Python 3.11 or the package tomli; pip install tomli" in done.stdout


def test_a_grid_without_end_is_refused(tmp_path: Path) -> None:
    axes = {key: tuple(map(float, range(1, 1001))) for key in ("gpu", "emc", "cpu")}
    with pytest.raises(MansardError, match=r"the grid has 1,000,000,000 modes, more than 200,000"):
        grid_points(Grid(axes), ORIN_NANO_LIKE)


def test_a_grid_of_which_nothing_is_left_is_refused() -> None:
    grid = Grid({"gpu": (306e6,)}, ({"gpu": ValueRange(0.0, 1e9, None)},))
    with pytest.raises(MansardError, match="the grid has no mode left"):
        grid_points(grid, ORIN_NANO_LIKE)


TABLES = st.lists(st.integers(1, 10**10), min_size=1, unique=True).map(
    lambda steps: tuple(float(step) for step in sorted(steps))
)


@given(steps=TABLES, hz=st.floats(0, 1e11), data=st.data())
def test_snapping_gives_an_available_frequency(
    steps: tuple[float, ...], hz: float, data: st.DataObject
) -> None:
    table = ValueTable(steps)
    band = ValueRange(steps[0], steps[-1], None)
    snapped = snap(hz, band, table)
    assert snapped in steps
    assert all(abs(snapped - hz) <= abs(step - hz) for step in steps)
    wanted = data.draw(st.sampled_from(steps))
    assert table.find(WrittenValue(wanted)) == wanted


VALUES = st.recursive(
    st.one_of(
        st.sampled_from(["'all'", "'612MHz'", "'1GHz'", "2", "true", "nan", "-1", "''", "1e400"]),
        st.integers().map(str),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["from", "to", "step", "points"]), inner).map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=6,
)
LINES = st.dictionaries(
    st.sampled_from(["gpu", "emc", "cpu", "dla", "cores", "sms", "exclude", "'a b'"]), VALUES
).map(lambda table: "\n".join(f"{key} = {value}" for key, value in table.items()))


@given(text=st.one_of(st.text(), LINES, st.tuples(LINES, LINES).map("\n[[exclude]]\n".join)))
def test_any_file_gives_a_grid_or_our_error(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any_grid.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        points = grid_points(read_grid(path, ORIN_NANO_LIKE), ORIN_NANO_LIKE)
    except MansardError:
        return
    assert len(set(points)) == len(points) > 0
