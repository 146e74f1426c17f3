"""``mansard multi contention``: what it would do, what it refuses, and what it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.events import Done, Event, Row, started
from mansard.measuring.kind import Job
from mansard.measuring.runner import run_plan
from mansard.microbench.contention.plan import make_contention_plan
from mansard.microbench.plan import probe
from tests.analytics.test_contention import point
from tests.cli.in_process import mansard
from tests.cli.test_cli_usage import assert_one_line

needs_two_cores = pytest.mark.skipif(len(identify().cpus) < 2, reason="one core alone")


def test_one_core_is_refused(tmp_path: Path) -> None:
    result = mansard("contention", "--mode", "1c", "--runs", str(tmp_path / "runs"))
    assert_one_line(result, 2, "one core", "hardware threads")
    assert not (tmp_path / "runs").exists()


@needs_two_cores
def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    result = mansard("contention", "--mode", "2c", "--dry-run", "--json", "--runs", str(runs))
    assert result.returncode == 0, result.stderr
    (board,) = json.loads(result.stdout)["boards"]
    (mode,) = board["modes"]
    assert (mode["trials"], mode["missing"]) == (60, 60)
    assert not runs.exists()


def made_up(job: Job) -> Iterator[Event]:
    """Each loses 40 points times both shares; nothing is lost without another."""
    yield started(job.plan.versions, NO_METERS, None, "no GPU")
    for spec in job.plan.trials:
        named = {name: asdict(spec)[name] for name in spec.__struct_fields__ if name != "unknown"}
        own, other = named["victim_share"], named["aggressor_share"]
        row = point("cpu:0", own, other, 1 - 0.4 * own * other, job.plan.run_id)
        yield Row(replace(row, trial_id=spec.trial_id, **named))
    yield Done()


@needs_two_cores
def test_what_was_measured_is_printed(tmp_path: Path) -> None:
    machine = identify()
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]
    plan = make_contention_plan(machine, mode, "brief", probe("cpu"))
    run_plan(plan, tmp_path, measurer=made_up)
    command = ("contention", "--profile", "brief", "--processor", "cpu", "--runs", str(tmp_path))
    shown = mansard(*command)
    assert shown.returncode == 0, shown.stderr
    # 20 GB/s each at most: 100 - 40 points at most beside most.
    assert "beside 20.0 GB/s" in shown.stdout
    assert "60.0" in shown.stdout
    assert "loses at worst 40.0 % of its speed" in shown.stdout
    assert "The fit (PCCS, modelled)" in shown.stdout
    assert "already measured" in shown.stderr
    told = json.loads(mansard(*command, "--json").stdout)["victims"]
    lines = [line for line in shown.stderr.splitlines() if re.search(r", \d+c: ", line)]
    assert len(lines) == len([each for each in told if each["remark"]])
    assert [each["victim"] for each in told] == sorted({spec.victim for spec in plan.trials})
    assert all(each["fit"] and each["is_contended"] for each in told)
