"""Names of options that older versions had: what is called otherwise now is said in one line."""

from __future__ import annotations

from types import MappingProxyType

# Command and old option: the new one. "*" stands for every command.
_RENAMED = MappingProxyType(
    {
        ("*", "--modes"): "--mode",
        ("score", "--mode"): "--phase",
        ("score", "--machine"): "--runs",
        ("bench", "--engine"): "--container-engine",
        ("contention", "--engine"): "--container-engine",
        ("image", "--engine"): "--container-engine",
        ("ncu", "--iterations"): "--calls",
        ("hi", "--report"): "--html",
        ("schedule", "--chart"): "--html",
    }
)


def renamed_line(command: str, error: Exception) -> str | None:
    """``--modes is called --mode now``; None where the parser's error has another cause.

    ``command``: its name, of a subcommand that of its group.
    """
    old = getattr(error, "option_name", None)
    if old is not None:
        new = _RENAMED.get((command, old)) or _RENAMED.get(("*", old))
        return None if new is None else f"{old} is called {new} now"
    if command == "plan" and "unexpected extra argument" in str(error):
        return "plan takes its folder of runs as --runs FOLDER now"
    return None
