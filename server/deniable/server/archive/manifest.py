"""Layout of an archive: its folders, its manifests, and a strict reader of both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from deniable.server.disk import sync, write_new
from deniable.server.store import Crowd, PublishedSurvey, RoundTally
from deniable.server.store.label_counts import packed_labels
from deniable.shared.errors import DeniableError, WrongUse
from deniable.shared.survey.document import parse_document, survey_id
from deniable.shared.survey.keys import verify

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
    version: Literal[2] = 2
    survey: Digest
    round: Count
    report_size: Count
    reports: Count
    tally: Digest  # digest of the round's counts; a recount must reproduce it
    label_key: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")] = ""  # of the survey in the store
    closed: date | None = None  # the day on which the survey was closed, if it was
    crowd: Crowd = Crowd()  # in which relays hid the reports; the parts do not show it
    parts: tuple[PartFile, ...]


class _Signed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    document: str
    signature: str
    key: str


@dataclass(frozen=True)
class Part:
    """Part, with everything that any machine needs to count it. Its repr is its name."""

    folder: str = field(repr=False)
    document: bytes = field(repr=False)
    round: int
    label_key: bytes = field(repr=False)
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
        prefix = f"{self.published.id[:12]}/{self.manifest.round}"
        for file in self.manifest.parts:
            published, name = self.published, f"{prefix}/{file.file}"
            about = str(self.folder), published.document, self.manifest.round
            yield Part(*about, published.label_key, file, name)


def digest_of(tally: RoundTally) -> str:
    counts = [tally.round, tally.reports, *tally.cells.tolist()]
    content = " ".join(map(str, counts)).encode() + packed_labels(tally.labels)
    return hashlib.sha256(content).hexdigest()


def round_folder(archive: Path, published: PublishedSurvey, number: int) -> Path:
    return archive / published.id / str(number)


def rounds_of(path: Path) -> list[ArchivedRound]:
    """Return the complete rounds in the folder of an archive, a survey or a round."""
    manifests = [file for depth in ("", "*/", "*/*/") for file in path.glob(depth + MANIFEST)]
    folders = [manifest.parent for manifest in manifests]
    rounds = [_round(folder) for folder in folders if not folder.name.endswith(UNFINISHED)]
    if not rounds:
        raise WrongUse(f"no archive exists at {path}; write one: deniable archive --to {path}")
    return sorted(rounds, key=lambda r: (r.published.id, r.manifest.round))


def write_survey(folder: Path, published: PublishedSurvey) -> None:
    signed = _Signed(
        document=published.document.decode(), signature=published.signature, key=published.key
    )
    write_durably(folder / SURVEY, msgspec.json.encode(signed))


def write_durably(path: Path, content: bytes) -> None:
    """Write a private file durably; replace an existing one completely or not at all."""
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)
    write_new(unfinished, content)
    unfinished.replace(path)
    sync(path.parent)


def _round(folder: Path) -> ArchivedRound:
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        signed = msgspec.json.decode((folder.parent / SURVEY).read_bytes(), type=_Signed)
        document = signed.document.encode()
        verify(document, signed.signature, signed.key, [signed.key])
        survey = parse_document(document)
    except (OSError, msgspec.DecodeError, DeniableError) as error:
        raise WrongUse(
            f"{folder} is not an archived round: {error}; use another copy of the archive"
        ) from None
    if survey_id(document) != manifest.survey or survey.report_size != manifest.report_size:
        raise WrongUse(
            f"{folder / MANIFEST} does not belong to the survey in {folder.parent / SURVEY}; "
            "use another copy of the archive"
        )
    published = PublishedSurvey(
        *(0, manifest.survey, document, signed.signature, signed.key, manifest.closed),
        label_key=bytes.fromhex(manifest.label_key),
        survey=survey,
    )
    return ArchivedRound(published, manifest, folder)
