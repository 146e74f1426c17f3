"""What other solvers find for a problem, beside Mansard's best schedule and the baselines.

python -m reproductions.solvers problem.toml [--time-limit 60s]

HaX-CoNN's own Z3 model (two networks, a GPU and one accelerator more), and CP-SAT and HiGHS on the
makespan without contention; ``make peers`` installs them. The simulator scores every assignment.
``mansard multi schedule --save-problem`` writes a problem of networks that were measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mansard import api
from mansard.analytics.pages.tables.schedules import method_table
from mansard.cli.tables import print_tables
from mansard.core.errors import InputError, MansardError
from mansard.core.records.schedule import Problem, Schedule
from mansard.core.units import parse_optional
from reproductions.solvers.blind import score
from reproductions.solvers.cp_sat import solve_by_cp_sat
from reproductions.solvers.haxconn import solve_by_z3
from reproductions.solvers.highs import solve_by_highs

SOLVERS = {
    "HaX-CoNN's Z3 model": solve_by_z3,
    "CP-SAT, blind to contention": solve_by_cp_sat,
    "HiGHS, blind to contention": solve_by_highs,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the methods; the exit code."""
    parser = argparse.ArgumentParser(prog="reproductions.solvers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "problem", type=Path, help="TOML or JSON file, as of mansard multi schedule"
    )
    parser.add_argument("--time-limit", default="10s", help="most time of each search: 60s")
    options = parser.parse_args(arguments)
    try:
        limit_s = parse_optional("--time-limit", options.time_limit, "time") or 10.0
        request = api.ScheduleRequest(problem=options.problem, time_limit_s=limit_s)
        answer = api.schedule(request)
        others = tuple(solved(answer.problem, limit_s))
    except MansardError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    print_tables([method_table((answer.best, *others, *answer.baselines))])
    return 0


def solved(problem: Problem, time_limit_s: float) -> Iterator[Schedule]:
    """What each solver finds, scored by our simulator; stderr says which find nothing, and why."""
    for name, solver in SOLVERS.items():
        try:
            answer = solver(problem, time_limit_s=time_limit_s)
        except ImportError:
            print(f"note: {name} is not installed: make peers", file=sys.stderr)
        except InputError as error:
            print(f"note: {name}: {error}", file=sys.stderr)
        else:
            if answer is None:
                print(f"note: {name} found nothing in {time_limit_s:g} s", file=sys.stderr)
            else:
                yield score(problem, answer, name)


if __name__ == "__main__":
    sys.exit(main())
