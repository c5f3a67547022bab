"""Opening a store's file: what it is, which layout it has, and SQLite's failures in our words."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from trustfold_streams.embedded.errors import (
    NewerStoreError,
    NoStoreError,
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
    StoreReadOnlyError,
)
from trustfold_streams.embedded.names import add_functions

APPLICATION_ID: Final = 0x7472_7573
"""`trus` in ASCII: marks a SQLite file as a store."""

BUSY_SECONDS = 10.0
"""How long a writer waits for another one."""

WAL_PAGES = 20_000
"""Pages in the write-ahead log before a checkpoint; fewer cost a tenth of the ingest rate."""

Mode = Literal["create", "write", "read"]


def connect(path: Path, mode: Mode, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open a store; `create` makes the file if there is none, `read` never writes it.

    Raises NoStoreError, NotAStoreError, NewerStoreError, StoreReadOnlyError, StoreBusyError.
    """
    if not path.exists():
        if mode != "create":
            raise NoStoreError(
                f"there is no store at {path}; `trustfold ingest FILE --store {path}` makes one"
            )
        if not path.parent.is_dir():
            raise NoStoreError(f"there is no folder {path.parent} to make a store in")
    if path.is_dir():
        raise NotAStoreError(f"{path} is a folder, not a store")
    uri = f"file:{_quoted(path)}?mode={'ro' if mode == 'read' else 'rwc'}"
    with translated(path):
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=busy_seconds, check_same_thread=False
        )
        try:
            _prepare(connection, path, mode)
            add_functions(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _quoted(path: Path) -> str:
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _prepare(connection: sqlite3.Connection, path: Path, mode: Mode) -> None:
    _, version = _identity(connection, path)
    latest = len(_migrations())
    if version > latest:
        raise NewerStoreError(
            f"{path} has layout {version}; this trustfold knows layouts up to {latest}. "
            "Use the version that wrote it, or a newer one"
        )
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    if mode == "read":
        if version < latest:
            raise NewerStoreError(
                f"{path} has layout {version}, this trustfold reads layout {latest}: "
                f"open it once for writing, for instance with `trustfold sweep --store {path}`"
            )
        return
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA recursive_triggers=ON")
    connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
    connection.execute("PRAGMA cache_size=-65536")
    if version < latest:
        _migrate(connection, path)


def _identity(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Application id and layout; (ours, 0) for an empty file. Refuses a stranger's file."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == APPLICATION_ID:
        return application_id, version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id or version or tables:
        raise NotAStoreError(f"{path} is a SQLite file of another program, not a store")
    return APPLICATION_ID, 0


def _migrations() -> list[str]:
    """The migrations in order; number N brings a file from layout N - 1 to layout N."""
    folder = resources.files("trustfold_streams.embedded") / "migrations"
    files = sorted(file.name for file in folder.iterdir() if re.match(r"\d{4}\.sql$", file.name))
    return [(folder / name).read_text(encoding="utf-8") for name in files]


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        # Another process may have migrated while this one waited for the lock.
        _, version = _identity(connection, path)
        for number, script in enumerate(_migrations()[version:], start=version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number:d}")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID:d}")


@functools.cache
def layout() -> Mapping[tuple[str, str], str]:
    """Every table, index and view of a store, by (type, name): the SQL that makes it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        for script in _migrations():
            empty.executescript(script)
        return layout_of(empty)


def layout_of(connection: sqlite3.Connection) -> Mapping[tuple[str, str], str]:
    """The tables, indexes and views that stand in a file."""
    return {
        (kind, name): sql
        for kind, name, sql in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'index', 'view') "
            "AND sql IS NOT NULL"
        )
    }


def _statements(script: str) -> Iterator[str]:
    """Split a script by SQLite's own idea of a complete statement (triggers hold semicolons)."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip(), pending


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """One write transaction: the lock is taken first, so that what is read stays true."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Generator[None]:
    """One read transaction: every query inside sees the same moment of the file."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


def _any_text(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


@contextlib.contextmanager
def any_text(connection: sqlite3.Connection) -> Generator[None]:
    """Read text that is not UTF-8 as well, so that its row can be named; it equals no UTF-8."""
    before = connection.text_factory
    connection.text_factory = _any_text
    try:
        yield
    finally:
        connection.text_factory = before


@contextlib.contextmanager
def translated(path: Path) -> Generator[None]:
    """Say SQLite's failures in the words of `errors`, with the next step."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
            raise StoreBusyError(
                f"another process is writing {path} and did not finish in time; try again"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise StoreFullError(
                f"no room is left for {path}; what was committed before is kept"
            ) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise StoreReadOnlyError(
                f"{path} may not be written: {error}; where its folder may not, copy it to one "
                "that may: even a reader keeps a file beside it"
            ) from error
        if code == sqlite3.SQLITE_CANTOPEN:
            raise StoreReadOnlyError(f"{path} cannot be opened: {error}") from error
        if code == sqlite3.SQLITE_NOTADB:
            raise NotAStoreError(f"{path} is not a SQLite file, so no store") from error
        if code in _OF_DAMAGE:
            raise _damaged(path, error) from error
        raise
    except UnicodeDecodeError as error:
        # How Python says that SQLite spoke of a name in the file that is not UTF-8.
        raise _damaged(path, error) from error


_OF_DAMAGE = (
    0,  # text that is not UTF-8; Python says so itself, without a code
    sqlite3.SQLITE_ERROR,  # our own statements are sound: a table or a column is not there
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CONSTRAINT,  # rows contradict each other
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
)


def _damaged(path: Path, error: Exception) -> StoreDamagedError:
    return StoreDamagedError(
        f"{path} is damaged ({error}); restore a copy, or save what SQLite's own "
        "`.recover` can read and ingest the bodies of its table `facts` again"
    )
