"""Copies of respondent pages for other hosts, and the files of a hosted page.

A copy has the same bytes as the page at `/ask/NAME`; only the file with the signed survey also
names the server. Anyone who does not trust the server to serve the script can use such a copy, on a
host that they do trust.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import msgspec

from deniable.server.pages.respondent.page_files import (
    SHARED_FILES,
    Shipped,
    file_list,
    page_file,
    page_of,
    shared_files,
    shipped,
)
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import Refused

_PINNED = re.compile(r'<main id="ask" data-survey="([0-9a-f]{64})" data-key="([0-9a-f]{64})">')
_LISTED = re.compile(r"^([0-9a-f]{64})  (\S+)$", re.MULTILINE)


def export_page(published: PublishedSurvey, server: str, folder: Path) -> Path:
    """Write the files of a survey's page to a folder for any static host; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    page, name = page_of(published), page_file(published)
    files = {
        name: page,
        **shared_files(),
        f"{published.id}.json": shipped(published, server),
        f"{published.id}.sha256": file_list(name, page),
    }
    for file, body in files.items():
        (folder / file).write_bytes(body)
    return folder / name


@dataclass(frozen=True)
class HostedPage:
    """Respondent page, as some host serves it."""

    survey: str  # the id to which the page is pinned
    key: str
    server: str  # where the page sends reports
    files: Mapping[str, str]  # SHA-256 by name

    @property
    def digest(self) -> str:
        """Hash of the list of its files, to compare with the register."""
        lines = (f"{digest}  {name}\n" for name, digest in self.files.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def differences(self, listed: str) -> list[str]:
        """Return the names of the files that differ from a list of hashes."""
        expected = {name: digest for digest, name in _LISTED.findall(listed)}
        return [name for name, digest in self.files.items() if expected.get(name) != digest]


def hosted_page(address: str, fetch: Callable[[str], bytes]) -> HostedPage:
    """Read a hosted page and its files. Raise Refused if it is not a respondent page."""
    page = fetch(address)
    pinned = _PINNED.search(page.decode(errors="replace"))
    if pinned is None:
        raise Refused(f"{address} is not a respondent page of deniable")
    survey, key = pinned.groups()
    try:
        entry = msgspec.json.decode(fetch(urljoin(address, f"{survey}.json")), type=Shipped)
        document = entry.document.encode()
        name = msgspec.json.decode(document, type=_Document).survey.name
    except msgspec.DecodeError:
        raise Refused(f"{address} comes with no signed survey that can be read") from None
    if hashlib.sha256(document).hexdigest() != survey:
        raise Refused(f"{address} is pinned to another survey, not to the one next to it")
    bodies = {f"{name}.html": page}
    bodies |= {file: fetch(urljoin(address, file)) for file in SHARED_FILES}
    hashes = {file: hashlib.sha256(body).hexdigest() for file, body in bodies.items()}
    return HostedPage(survey, key, entry.server or urljoin(address, ".."), hashes)


class _Survey(msgspec.Struct):
    name: str


class _Document(msgspec.Struct):
    survey: _Survey
