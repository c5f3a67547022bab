"""What is wrong with an archive is named, and nothing of it is used."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.archive.logs import (
    FACTS,
    GAP,
    LEDGER,
    MemoryLog,
    entry,
    fact,
    held,
    log_of,
    orphans,
    rewritten,
    with_field,
)
from trustfold_projections.analysis.verify import Report
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.errors import (
    ArchiveBusyError,
    ArchiveDamagedError,
    ArchiveDiskError,
    NoArchiveError,
    OtherLogError,
)
from trustfold_projections.archive.files import Disk
from trustfold_projections.archive.rows import Row
from trustfold_projections.archive.schema import Place
from trustfold_projections.archive.writer import ArchiveWriter, Limits
from trustfold_streams.archiver.locks import reading, writing
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.archiver.store import ArchiveStore, verify_archive

LIMITS = Limits(rows=2, merge=2)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two passes, with a merge, whose files that were merged are gone."""
    folder = tmp_path_factory.mktemp("sound") / "archive"
    writer = ArchiveWriter(folder, limits=LIMITS)
    for count in (2, 5):
        writer.archive(log_of(count))
    writer.remove_retired()
    return folder


@pytest.fixture
def archive(sound: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(sound, tmp_path / "archive"))


def named(report: Report) -> str:
    """All differences in one text."""
    return "\n".join(f"{one.where}: {one.difference}" for one in report.findings)


def test_a_sound_archive_has_no_difference(sound: Path) -> None:
    """The chain, the files, and what merges took over."""
    report = verify_archive(sound)
    # These entries were written down and not derived: that proof is made elsewhere.
    assert not [one for one in report.findings if one.proof == "archive"]
    assert not list(orphans(sound))
    assert any(line.replaces for line in manifests.load(sound).lines)


def test_every_file_is_held_against_its_digest(archive: Path) -> None:
    """A byte changed in any file is named with the file."""
    for number, path in enumerate(sorted((archive / "segments").iterdir())):
        content = path.read_bytes()
        at = (0, len(content) // 2, len(content) - 1)[number % 3]
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert f"{path.name} has the SHA-256" in named(verify_archive(archive))
        path.write_bytes(content)


def test_a_byte_changed_in_the_manifest_is_named(archive: Path) -> None:
    """Whichever line it is in, all but the last by the chain, the last by the head kept."""
    head = manifests.load(archive).head
    path = archive / manifests.NAME
    content = path.read_bytes()
    for at in range(0, len(content), 523):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        report = verify_archive(archive, anchor=head)
        assert not report.ok, at
    path.write_bytes(content)


def test_a_missing_file_is_named(archive: Path) -> None:
    """A segment and a rollup that are gone."""
    for path in sorted((archive / "segments").iterdir()):
        content = path.read_bytes()
        path.unlink()
        assert f"{path.name} is missing" in named(verify_archive(archive))
        path.write_bytes(content)


def test_a_foreign_file_is_named(archive: Path) -> None:
    """What no line names, whatever it is called."""
    (archive / "segments" / "stranger.parquet").write_bytes(b"PAR1")
    assert "stranger.parquet: no line of the manifest names it" in named(verify_archive(archive))


def test_a_cut_tail_is_named(archive: Path) -> None:
    """Lines cut off: by the files that nobody names any more, and by an anchor."""
    head = manifests.load(archive).head
    rewritten(archive, lambda lines: lines[:-4])
    report = verify_archive(archive, anchor=head)
    assert f"the anchor {head} is no head that this archive ever had" in named(report)
    assert "no line of the manifest names it" in named(report)


def test_a_torn_line_is_named_and_cut_off_by_the_next_archiver(archive: Path) -> None:
    """Half a line does not count for readers, and is no obstacle for writers."""
    head = manifests.load(archive).head
    with (archive / manifests.NAME).open("ab") as file:
        file.write(b'{"prev":"')
    assert "ends in a torn line of 9 bytes" in named(verify_archive(archive))
    with ArchiveStore.open(archive) as store:
        assert store.states()
    with open_archiver(archive, limits=LIMITS) as archiver:
        assert archiver.writer.manifest.head == head
    assert verify_archive(archive).head == head
    assert "torn" not in named(verify_archive(archive))


CHANGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "a line taken out": (lambda lines: [*lines[:1], *lines[2:]], "a line was changed, taken out"),
    "a line doubled": (lambda lines: [lines[0], *lines], "is named a second time"),
    "lines exchanged": (lambda lines: [lines[1], lines[0], *lines[2:]], "a line was changed"),
    "a gap": (lambda lines: [with_field(lines[0], "from", 1), *lines[1:]], "are missing"),
    "settled set back": (
        lambda lines: [*lines[:-1], with_field(lines[-1], "settled", 1)],
        "settled goes back",
    ),
    "another name": (
        lambda lines: [with_field(lines[0], "file", "../x.parquet"), *lines[1:]],
        "should be named",
    ),
    "no digest": (
        lambda lines: [with_field(lines[0], "sha256", "0"), *lines[1:]],
        "are no SHA-256",
    ),
    "no JSON": (lambda lines: [b"{}\n", *lines[1:]], "cannot be read"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_manifest_is_named_and_refused(archive: Path, what: str) -> None:
    """Verify names it; readers and the archiver refuse to go on."""
    change, expected = CHANGES[what]
    rewritten(archive, change)
    assert expected in named(verify_archive(archive))
    with pytest.raises(ArchiveDamagedError, match="names all"):
        ArchiveStore.open(archive)
    with pytest.raises(ArchiveDamagedError), open_archiver(archive):
        pass


def test_the_same_log_gives_the_same_archive(sound: Path, tmp_path: Path) -> None:
    """The same rows give the same bytes, whoever writes them, and so the same head."""
    writer = ArchiveWriter(tmp_path, limits=LIMITS)
    for count in (2, 5):
        writer.archive(log_of(count))
    assert writer.manifest.head == manifests.load(sound).head


def test_a_segment_of_other_rows_is_named(archive: Path) -> None:
    """A file that is as its line says by its bytes, but not by its rows."""
    rewritten(
        archive,
        lambda lines: [*lines[:-1], with_field(lines[-1], "rows_sha256", "0" * 64)],
    )
    assert "has other rows than its line says" in named(verify_archive(archive))


def test_one_archiver_at_a_time(archive: Path) -> None:
    """The second is told so, and changes nothing."""
    with writing(archive), pytest.raises(ArchiveBusyError), open_archiver(archive):
        pass


def test_files_go_only_when_nobody_reads(tmp_path: Path) -> None:
    """What a merge has taken over stays while a reader has the archive open."""
    folder = tmp_path / "archive"
    ArchiveWriter(folder, limits=LIMITS).archive(log_of(2))

    def go_on(count: int) -> set[str]:
        with open_archiver(folder, limits=LIMITS) as archiver:
            archiver.run(lambda _: contextlib.nullcontext(log_of(count)))
        return set(orphans(folder))

    with reading(folder):
        assert go_on(5)
    assert not go_on(6) - set(orphans(folder))
    with open_archiver(folder, limits=LIMITS) as archiver:
        archiver.run(lambda _: contextlib.nullcontext(log_of(6)))
    assert not set(orphans(folder))


def test_another_log_is_refused(archive: Path) -> None:
    """An archive goes on with the log it is of, or not at all."""
    shorter = log_of(1)
    with pytest.raises(OtherLogError, match="this log only up to"):
        ArchiveWriter(archive, limits=LIMITS).archive(shorter)
    rows: dict[Place, list[Row]] = {
        FACTS: [replace(fact(number + 1), position=GAP * number) for number in range(9)],
        LEDGER: [entry(number) for number in range(9)],
    }
    other = MemoryLog(rows, log_of(9).settled)
    with pytest.raises(OtherLogError, match="another record than this log"):
        ArchiveWriter(archive, limits=LIMITS).archive(other)


class _FullDisk(Disk):
    """Has no room for a line any more."""

    def append(self, path: Path, data: bytes) -> None:
        """Half of it fits."""
        super().append(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space left", str(path))


def test_a_full_disk_is_said_and_outlived(archive: Path) -> None:
    """What was archived is kept, and the next archiver goes on."""
    with (
        pytest.raises(ArchiveDiskError, match="no space left"),
        open_archiver(archive, _FullDisk(), LIMITS) as archiver,
    ):
        archiver.run(lambda _: contextlib.nullcontext(log_of(9)))
    with open_archiver(archive, limits=LIMITS) as archiver:
        archiver.run(lambda _: contextlib.nullcontext(log_of(9)))
    assert held(archive) == {place.topic: list(log_of(9).rows(place, 0, 99)) for place in _PLACES}
    assert not list(orphans(archive))


_PLACES = list(log_of(1).ends())


def test_a_folder_where_the_manifest_should_be(tmp_path: Path) -> None:
    """What cannot be read is said, not passed on as a traceback."""
    (tmp_path / manifests.NAME).mkdir()
    with pytest.raises(ArchiveDiskError, match="cannot be read"):
        verify_archive(tmp_path)


def test_no_archive(tmp_path: Path) -> None:
    """A folder without a manifest is no archive."""
    with pytest.raises(NoArchiveError, match="trustfold archive"):
        ArchiveStore.open(tmp_path)
    with pytest.raises(NoArchiveError):
        verify_archive(tmp_path / "nowhere")
