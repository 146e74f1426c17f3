"""What ``doctor`` checks: of any machine, of a Jetson, and of the engines and containers there."""

from __future__ import annotations

from typing import Literal

import msgspec

from mansard.core.errors import MansardError


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; everything but ``ok`` has a remedy.

    ``missing``: something is not there, and what depends on it stays unknown or unset.
    ``warning``: it is there, but something is wrong with it. Only ``broken`` makes measuring
    impossible.
    """

    name: str
    status: Literal["ok", "missing", "warning", "broken"]
    detail: str
    fix: str | None


def ok(name: str, detail: str) -> Check:
    """A check that found all well."""
    return Check(name=name, status="ok", detail=detail, fix=None)


def missing(name: str, detail: str, fix: str) -> Check:
    """A check that did not find what it looked for."""
    return Check(name=name, status="missing", detail=detail, fix=fix)


def warning(name: str, detail: str, fix: str) -> Check:
    """A check that found something wrong, or that could not be made."""
    return Check(name=name, status="warning", detail=detail, fix=fix)


def broken(name: str, detail: str, fix: str) -> Check:
    """A check that found why nothing can be measured."""
    return Check(name=name, status="broken", detail=detail, fix=fix)


def failed(name: str, error: MansardError, fix: str) -> Check:
    """A check that ended in an error; ``fix`` where the error brings no remedy of its own."""
    detail = f"{error.where}: {error.what}" if error.where else error.what
    return warning(name, detail, error.fix or fix)
