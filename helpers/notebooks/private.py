"""Find what an output tells about the machine it was made on and nobody else can use."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

_TEXT_TYPES = ("text/plain", "text/html", "text/markdown", "image/svg+xml")
_PATTERNS = {
    "a kernel's temporary name": re.compile(r"ipykernel_\d+[\w./-]*"),
    "an absolute path": re.compile(r"(?<![\w.~])/(?:home|root|Users|work|tmp|usr|opt|private|mnt|var)/[\w./-]+"),
    "a Windows path": re.compile(r"\b[A-Z]:\\\\?Users\\[\w\\.-]*"),
    "a carriage return": re.compile(r"[^\n]{0,20}\r(?!\n)"),
    "a terminal's colour code": re.compile(r"\x1b\[[\d;]*m"),
    "a message of the kernel": re.compile(r"\[IPKernelApp\][^\n]{0,60}"),
}
_ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_DOCUMENTATION = [ipaddress.ip_network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
"""Addresses reserved for examples (RFC 5737)."""


def private_text(output: Any) -> Iterator[tuple[str, str]]:
    """Yield what is private in an output's text, as a description and the text found, one each.

    Args:
        output: An output of a code cell, in nbformat's structure.
    """
    text = _text(output)
    for what, pattern in _PATTERNS.items():
        found = pattern.search(text)
        if found:
            yield what, found[0][:80]
    for found in _ADDRESS.finditer(text):
        if _tells_something(found[0]):
            yield "a network address", found[0]
            return


def _text(output: Any) -> str:
    """Return all the text that readers see of an output."""
    data = output.get("data", {})
    pieces = [data[mime] for mime in _TEXT_TYPES if mime in data]
    return "\n".join(map(str, [*pieces, output.get("text", ""), *output.get("traceback", [])]))


def _tells_something(text: str) -> bool:
    """Whether an address is one of a real host, not loopback, unspecified or reserved for examples."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    documented = any(address in block for block in _DOCUMENTATION)
    return not (address.is_loopback or address.is_unspecified or documented)
