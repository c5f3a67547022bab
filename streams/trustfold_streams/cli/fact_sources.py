"""A log to analyse, from a store in a file or from an archive: facts, those of a key together."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import click

from trustfold_projections.laws.correlation import Key, key_of
from trustfold_schemas.errors import NotSettledError
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import format_instant
from trustfold_streams.archiver.extra import require_extra
from trustfold_streams.cli.options import Settings

if TYPE_CHECKING:
    import duckdb

    from trustfold_projections.analysis.backtest.history import FactSource
    from trustfold_projections.archive.opening import Archive
    from trustfold_projections.archive.schema import Topic
    from trustfold_streams.archiver.from_embedded import EmbeddedLog

COPIED_AT_ONCE: Final = 8_192
"""Entries of a store in a file that are in memory as objects."""


@contextlib.contextmanager
def open_facts(settings: Settings) -> Generator[FactSource]:
    """Open the log that `--store` names, as it is now. Raises DuckdbExtraError."""
    require_extra()
    _refuse_broker(settings)
    if settings.on_archive:
        with settings.open_archive() as store:
            from trustfold_projections.archive.duck import in_memory

            with contextlib.closing(in_memory()) as connection:
                yield ArchivedFacts(connection, store.archive)
        return
    from trustfold_streams.archiver.from_embedded import embedded_log

    with embedded_log(settings.path) as log:
        yield EmbeddedFacts(log)


class EmbeddedFacts:
    """The facts of a store in a file; all of them are in memory at once while keys are read."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log

    def medians(self) -> Iterable[Fact]:
        """The facts of published medians, in log order."""
        return self._rows("cost-median")

    def policy(self) -> Iterable[Fact]:
        """The facts of the policy's log, in its order."""
        return self._rows("policy")

    def by_key(self) -> Iterable[Sequence[Fact]]:
        """All other facts that make entries, those of one key together."""
        return _grouped(self._rows("facts"))

    def _rows(self, topic: Topic) -> Iterator[Fact]:
        from trustfold_projections.archive.schema import Place

        place = Place(topic, 0)
        for row in self._log.rows(place, 0, self._log.ends()[place]):
            assert isinstance(row, Fact)
            yield row


class ArchivedFacts:
    """The facts of an archive, up to the moment it has settled; a trace's in memory at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, archive: Archive) -> None:
        self._connection = connection
        self._archive = archive

    def medians(self) -> Iterable[Fact]:
        """The facts of published medians, in log order."""
        from trustfold_projections.analysis.records import facts_of

        return (fact for _, fact in facts_of(self._connection, self._archive, "cost-median"))

    def policy(self) -> Iterable[Fact]:
        """The facts of the policy's log, in its order."""
        from trustfold_projections.analysis.records import facts_of

        return (fact for _, fact in facts_of(self._connection, self._archive, "policy"))

    def by_key(self) -> Iterator[Sequence[Fact]]:
        """All other facts that make entries, those of one key together."""
        from trustfold_projections.analysis.records import facts_of

        settled = "recorded_us <= $settled"
        traces = facts_of(
            self._connection,
            self._archive,
            where=f"trace_id IS NOT NULL AND {settled}",
            order='trace_id, partition, "offset"',
            settled=self._archive.settled,
        )
        keyed = ((key_of(fact.event), fact) for _, fact in traces)
        for _, group in groupby(keyed, key=itemgetter(0)):
            yield [fact for _, fact in group]
        others = facts_of(
            self._connection,
            self._archive,
            where=f"trace_id IS NULL AND {settled}",
            settled=self._archive.settled,
        )
        yield from _grouped(fact for _, fact in others)


def _grouped(facts: Iterable[Fact]) -> Iterable[Sequence[Fact]]:
    keys: dict[Key, list[Fact]] = {}
    for fact in facts:
        keys.setdefault(key_of(fact.event), []).append(fact)
    return keys.values()


def require_settled(settled: int, moment: int) -> None:
    """Raise NotSettledError for a moment after that up to which a log has settled."""
    if moment > settled:
        raise NotSettledError(
            f"the log has settled up to {format_instant(settled)}: it cannot say what was known "
            f"at {format_instant(moment)}; ask as of that moment or before"
        )


class LedgerToRead:
    """A database in which the view `ledger` is the ledger of a store, and how far it is settled."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, settled: int) -> None:
        self.connection = connection
        self.settled = settled

    def require(self, moment: int) -> None:
        """Raise NotSettledError for a moment that later facts could still change."""
        require_settled(self.settled, moment)


@contextlib.contextmanager
def open_ledger(settings: Settings) -> Generator[LedgerToRead]:
    """Open the ledger that `--store` names, as it is now. Raises DuckdbExtraError."""
    require_extra()
    _refuse_broker(settings)
    from trustfold_projections.archive.duck import in_memory

    with contextlib.closing(in_memory()) as connection:
        if settings.on_archive:
            with settings.open_archive() as store:
                _view_of_files(connection, store.archive.files("ledger"))
                yield LedgerToRead(connection, store.archive.settled)
            return
        from trustfold_streams.archiver.from_embedded import embedded_log

        with embedded_log(settings.path) as log:
            _copy(connection, log)
            settled = log.settled
        yield LedgerToRead(connection, settled)


def _copy(connection: duckdb.DuckDBPyConnection, log: EmbeddedLog) -> None:
    """The ledger of a store in a file as columns; as objects only some of it at a time."""
    from trustfold_projections.archive.rows import table_of
    from trustfold_projections.archive.schema import SCHEMAS, Place

    connection.register("copied", SCHEMAS["ledger"].empty_table())
    connection.execute("CREATE TABLE ledger AS FROM copied")
    place = Place("ledger", 0)
    entries = iter(log.rows(place, 0, log.ends()[place]))
    while rows := list(islice(entries, COPIED_AT_ONCE)):
        connection.register("copied", table_of(place, rows))
        connection.execute("INSERT INTO ledger FROM copied")
    connection.unregister("copied")


def _view_of_files(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    from trustfold_projections.analysis.records import list_of
    from trustfold_projections.archive.schema import SCHEMAS

    if files:
        connection.execute(
            f"CREATE VIEW ledger AS SELECT * FROM read_parquet({list_of(list(files))})"  # noqa: S608
        )
    else:
        connection.register("ledger", SCHEMAS["ledger"].empty_table())


def _refuse_broker(settings: Settings) -> None:
    if settings.on_kafka:
        raise click.UsageError(
            "this command reads a store in a file or an archive: run `trustfold archive DIR` over "
            "the broker, and give --store archive:DIR"
        )
