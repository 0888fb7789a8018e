"""Versions: what is installed, what the course was tested with, and what its package asks for.

The tested versions are in ``constraints.txt`` at the root of a clone; the ranges are in the
metadata of the installed package. Neither is repeated in code.
"""

from __future__ import annotations

import re
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from helpers import machine

DISTRIBUTION = "loop-to-cluster"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", re.MULTILINE)


def canonical(name: str) -> str:
    """Return a package's name as the index compares it, for example ``pyyaml`` for ``PyYAML``."""
    return str(canonicalize_name(name))


def tested() -> dict[str, str]:
    """Return the tested version of each package by canonical name; empty outside a clone."""
    try:
        text = (machine.checkout() / "constraints.txt").read_text(encoding="utf-8")
    except OSError:
        return {}
    return {canonical(name): version for name, version in _PIN.findall(text)}


def installed(name: str) -> str | None:
    """Return a package's installed version, or None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def same(version: str, other: str) -> bool:
    """Say whether two versions are the same release; a local part such as ``+cpu`` names a build of it."""
    try:
        return Version(version).public == Version(other).public
    except InvalidVersion:
        return version == other


def direct_requirements() -> list[Requirement]:
    """Return what the course's package asks for without extras; empty where it is not installed."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    requirements = (Requirement(line) for line in lines)
    return [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]


def python_range() -> SpecifierSet | None:
    """Return the versions of Python that the course's package accepts; None where it is not installed."""
    try:
        declared = metadata.metadata(DISTRIBUTION)["Requires-Python"]
    except metadata.PackageNotFoundError:
        return None
    return SpecifierSet(declared)
