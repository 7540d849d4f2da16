"""What lies where in an archive, and what its manifests say: read as strictly as written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import DeniableError, WrongUse
from deniable.shared.survey.document import parse_document, survey_id
from deniable.shared.survey.signing import verify

MANIFEST, SURVEY = "manifest.json", "survey.json"
UNFINISHED = ".unfinished"
Count = Annotated[int, Meta(ge=0)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class PartFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file: Annotated[str, Meta(pattern=r"^part-[0-9]{5,}\.parquet$")]
    reports: Count
    bytes: Count
    sha256: Digest


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A round of an archive."""

    version: Literal[1] = 1
    survey: Digest
    round: Count
    report_size: Count
    reports: Count
    tally: Digest  # of all its counts: what a recount must come to
    parts: tuple[PartFile, ...]


class _Signed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    document: str
    signature: str
    key: str


@dataclass(frozen=True)
class Part:
    """A part to be counted, with all that counting it takes, anywhere. Shown by its name alone."""

    folder: str = field(repr=False)
    document: bytes = field(repr=False)
    round: int
    file: PartFile = field(repr=False)
    name: str

    @property
    def path(self) -> Path:
        return Path(self.folder, self.file.file)


@dataclass(frozen=True)
class ArchivedRound:
    published: PublishedSurvey
    manifest: Manifest
    folder: Path

    def parts(self) -> Iterator[Part]:
        place = f"{self.published.id[:12]}/{self.manifest.round}"
        for each in self.manifest.parts:
            document, name = self.published.document, f"{place}/{each.file}"
            yield Part(str(self.folder), document, self.manifest.round, each, name)


def digest_of(tally: RoundTally) -> str:
    counts = [tally.round, tally.reports, *tally.cells.tolist()]
    return hashlib.sha256(" ".join(map(str, counts)).encode()).hexdigest()


def round_folder(archive: Path, published: PublishedSurvey, number: int) -> Path:
    return archive / published.id / str(number)


def rounds_of(place: Path) -> list[ArchivedRound]:
    """Of an archive, of one survey in it, or one round; whole ones only."""
    manifests = [path for depth in ("", "*/", "*/*/") for path in place.glob(depth + MANIFEST)]
    folders = [path.parent for path in manifests]
    rounds = [_round(each) for each in folders if not each.name.endswith(UNFINISHED)]
    if not rounds:
        raise WrongUse(f"there is no archive at {place}; write one: deniable archive --to {place}")
    return sorted(rounds, key=lambda each: (each.published.id, each.manifest.round))


def write_survey(folder: Path, published: PublishedSurvey) -> None:
    signed = _Signed(
        document=published.document.decode(), signature=published.signature, key=published.key
    )
    write_durably(folder / SURVEY, msgspec.json.encode(signed))


def write_durably(path: Path, content: bytes) -> None:
    """Whole or not at all, for its owner alone."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with open(unfinished, "wb", opener=_private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync(path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _round(folder: Path) -> ArchivedRound:
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        signed = msgspec.json.decode((folder.parent / SURVEY).read_bytes(), type=_Signed)
        document = signed.document.encode()
        verify(document, signed.signature, signed.key, [signed.key])
        survey = parse_document(document)
    except (OSError, msgspec.DecodeError, DeniableError) as error:
        raise WrongUse(f"{folder} is not a round of an archive: {error}") from None
    if survey_id(document) != manifest.survey or survey.report_size != manifest.report_size:
        raise WrongUse(f"{folder / MANIFEST} is not of the survey that lies beside it")
    published = PublishedSurvey(
        0, manifest.survey, document, signed.signature, signed.key, closed=True, survey=survey
    )
    return ArchivedRound(published, manifest, folder)
