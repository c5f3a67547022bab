"""The entries of a store in a file or of an archive, subject by subject, as of a settled moment."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Protocol

import click

from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.fact_sources import require_settled
from trustfold_streams.cli.options import Settings
from trustfold_streams.embedded.database import connect, snapshot, translated
from trustfold_streams.embedded.reader import history_of, load_subjects, settled_up_to

if TYPE_CHECKING:
    from trustfold_streams.archiver.store import ArchiveStore

Entries = Iterator[tuple[Subject, list[Entry]]]
"""Subjects that have any, each with its entries in log order."""


class EntrySource(Protocol):
    """A ledger as it is now; nothing of it changes while it is read."""

    @property
    def settled(self) -> int:
        """The moment at or before which nothing will be recorded any more."""
        ...

    def by_subject(self, moment: int, subject: Subject | None = None) -> Entries:
        """The entries recorded at or before a moment, of all subjects or of one.

        One subject's are in memory at a time. Raises NotSettledError.
        """
        ...


@contextlib.contextmanager
def open_entries(settings: Settings) -> Generator[EntrySource]:
    """Open the ledger that `--store` names. Raises DuckdbExtraError for an archive."""
    if settings.on_kafka:
        raise click.UsageError(
            "elapsed/1 is computed over a store in a file or an archive: run `trustfold archive "
            "DIR` over the broker, and give --store archive:DIR"
        )
    if settings.on_archive:
        with settings.open_archive() as store:
            yield ArchivedEntries(store)
        return
    path = settings.path
    with (
        contextlib.closing(connect(path, "read")) as connection,
        translated(path),
        snapshot(connection),
    ):
        yield EmbeddedEntries(connection)


class ArchivedEntries:
    """The ledger of an archive, merged from its segments."""

    def __init__(self, store: ArchiveStore) -> None:
        self._store = store

    @property
    def settled(self) -> int:
        """The moment up to which the archive has settled."""
        return self._store.archive.settled

    def by_subject(self, moment: int, subject: Subject | None = None) -> Entries:
        """The entries recorded at or before a moment. Raises NotSettledError."""
        from trustfold_projections.analysis.whatif_elapsed import archived_by_subject

        archive = self._store.archive
        if subject is None:
            yield from archived_by_subject(archive, moment)
            return
        archive.require_settled(moment)
        entries = [one for one in self._store.entries(subject) if one.recorded <= moment]
        if entries:
            yield subject, entries


class EmbeddedEntries:
    """The ledger of a store in a file, inside one read transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def settled(self) -> int:
        """The moment of the last fact, or one that the store was told to record after."""
        return settled_up_to(self._connection)

    def by_subject(self, moment: int, subject: Subject | None = None) -> Entries:
        """The entries recorded at or before a moment. Raises NotSettledError."""
        require_settled(self.settled, moment)
        for number, one in load_subjects(self._connection).items():
            if subject in (None, one):
                history = history_of(self._connection, number, one, named=True)
                entries = [entry for entry in history if entry.recorded <= moment]
                if entries:
                    yield one, entries
