"""A program of your own, with the time, memory and energy of the whole and of its parts."""

import sys
import tempfile
from pathlib import Path

from mansard import api

# Any program will do. Its lines with windows are optional: they name parts of it.
PROGRAM = """
from mansard import api

with api.window("prefill"):
    total = sum(range(3_000_000))
with api.window("decode") as decode:
    for token in range(20):
        total += sum(range(100_000))
print(f"tokens/s: {20 / decode.time_s:.1f}")
"""

with tempfile.TemporaryDirectory() as folder:
    program = Path(folder, "llm.py")
    program.write_text(PROGRAM, "utf-8")
    result = api.measure_program(
        api.ProgramRequest(
            command=(sys.executable, str(program)),
            name="llm",
            metric="tokens/s: ([0-9.]+)",
            n_runs=3,  # without it: until the time is known
            # mode="15W,30W,MAXN",  # power modes of a Jetson; it is put back as it was found
        )
    )
result.check()  # raises where a mode could not be measured
for measured in result.measured:
    for part in measured.times:
        energy = "energy unknown" if part.energy_j is None else f"{part.energy_j:.3g} J"
        print(f"{part.window or 'the whole':12} {part.time_s * 1e3:8.1f} ms  {energy}")
