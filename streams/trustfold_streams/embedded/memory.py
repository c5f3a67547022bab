"""What a writer remembers between transactions: states of keys and subjects, the log's ends.

All of it can be read from the file again, and is, as soon as another process has written or a
transaction has failed.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from msgspec import Struct

from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import ScoreRecord, State, state_of
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.names import names_of

log = logging.getLogger("trustfold.embedded")

KEYS_MAX = 10_000
SUBJECTS_MAX = 20_000


class HeldKey(Struct, gc=False):
    """What is known of one correlation key and where its facts are.

    Of most traces only one fact is ever known, their close: `lone`. Their state is derived when
    it is asked for, by `known`.
    """

    key: Key
    hashed: int
    state: KeyState | None = None
    lone: Fact | None = None
    first_recorded: int | None = None
    last_recorded: int = 0
    facts: int = 0
    folded: int | None = None

    def known(self, medians: MedianTable) -> KeyState:
        """The state of the key, derived from its lone fact where that is all."""
        state = self.state
        if state is None:
            state = self.state = new_state(self.key)
            if self.lone is not None:
                correlate(state, self.lone, medians)
                self.lone = None
        return state


class HeldSubject(Struct, gc=False):
    """The state of one subject and its latest entry."""

    subject_id: int
    state: State
    head: int | None = None
    stored: bool = True


SCORE_COLUMNS = "CAST(content AS BLOB), CAST(beside AS BLOB), digest, checksum"
"""A record as bytes, so that one that is not UTF-8 any more is corrupt like any other."""

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The most recently used things, up to a number; none is dropped before `trim`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What is held under a key, which becomes the most recent."""
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
        return held

    def put(self, key: K, value: V) -> V:
        """Hold something."""
        self._held[key] = value
        return value

    def trim(self) -> None:
        """Drop the least recent ones over the number."""
        while len(self._held) > self.most:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Drop all."""
        self._held.clear()


class Memory:
    """A writer's cache over one connection; call `refresh` inside each transaction first."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._keys: Recent[Key, HeldKey] = Recent(KEYS_MAX)
        self._subjects: Recent[Subject, HeldSubject] = Recent(SUBJECTS_MAX)
        self._data_version: int | None = None
        self.medians = MedianTable()
        self.last_recorded = 0
        self.chain = rows.GENESIS
        self.position = 0
        self.subject_id = 0

    def forget(self) -> None:
        """Distrust everything held: a transaction failed."""
        self._data_version = None

    def refresh(self) -> None:
        """Read the log's ends; drop what another process's commit may have made wrong."""
        one = self._connection.execute
        (version,) = one("PRAGMA data_version").fetchone()
        if version == self._data_version:
            return
        self._keys.clear()
        self._subjects.clear()
        last = one("SELECT recorded, chain FROM facts ORDER BY recorded DESC LIMIT 1").fetchone()
        self.last_recorded, self.chain = last or (0, rows.GENESIS)
        (self.position,) = one("SELECT coalesce(max(position), 0) FROM ledger").fetchone()
        (self.subject_id,) = one("SELECT coalesce(max(subject_id), 0) FROM subjects").fetchone()
        rows.check_moment(self.last_recorded)
        self.last_recorded = max(self.last_recorded, settled_beyond(self._connection))
        self.medians = load_medians(self._connection)
        self._data_version = version

    def trim(self) -> None:
        """Drop the least recently used states; call between transactions only."""
        self._keys.trim()
        self._subjects.trim()

    def key(self, key: Key) -> HeldKey:
        """What is known of a key, re-derived from its facts if it is not held."""
        held = self._keys.get(key)
        if held is None:
            held = self._keys.put(key, load_key(self._connection, key, self.medians))
        return held

    def known(self, key: Key) -> KeyState:
        """The state of a key."""
        return self.key(key).known(self.medians)

    def expect(self, keys: Iterable[Key]) -> None:
        """Look up many keys at once; most are new, and are known to be so from then on."""
        unknown = {rows.key_hash(key): key for key in keys if self._keys.get(key) is None}
        hashes = iter(unknown)
        while some := list(islice(hashes, 500)):
            marks = ", ".join("?" * len(some))
            present = {
                hashed
                for (hashed,) in self._connection.execute(
                    f"SELECT key_hash FROM facts WHERE key_hash IN ({marks})", some
                )
            }
            for hashed in some:
                if hashed not in present:
                    key = unknown[hashed]
                    self._keys.put(key, HeldKey(key, hashed))

    def subject(self, subject: Subject) -> HeldSubject:
        """The state of a subject, a new one if there is none.

        A corrupt one is refolded from the ledger, and said aloud.
        """
        held = self._subjects.get(subject)
        if held is None:
            held = self._subjects.put(subject, self._load_subject(subject))
        return held

    def _load_subject(self, subject: Subject) -> HeldSubject:
        row = self._connection.execute(
            f"SELECT subject_id, {SCORE_COLUMNS} FROM subjects "
            "LEFT JOIN scores USING (subject_id) WHERE scope = ? AND tool = ? AND effect = ?",
            subject,
        ).fetchone()
        if row is None:
            self.subject_id += 1
            return HeldSubject(self.subject_id, State(subject=subject), stored=False)
        subject_id = row[0]
        try:
            state, head = open_score(row[1:], subject)
        except TrustCorruptionError as error:
            log.critical("refolding a corrupt score from the ledger: %s", error)
            head = last_position(self._connection, subject_id)
            state = refold(subject, entries_of(self._connection, subject, head))
        return HeldSubject(subject_id, state, head)


def open_score(columns: rows.Row, subject: Subject) -> tuple[State, int | None]:
    """Read SCORE_COLUMNS of a row and check it is the subject's.

    Raises TrustCorruptionError for damage, for another subject's record, and for no record.
    """
    content, beside, digest, checksum = columns
    if content is None or beside is None:
        raise TrustCorruptionError(f"the score of {subject} is missing from the table")
    state, head = state_of(ScoreRecord(content, beside, digest, checksum))
    if state.subject != subject:
        raise TrustCorruptionError(f"the score of {subject} holds that of {state.subject}")
    return state, head


def settled_beyond(connection: sqlite3.Connection) -> int:
    """The moment beyond the last fact that the log was told to settle; 0 if it was not told."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'settled'").fetchone()
    if row is not None and not isinstance(row[0], int):
        raise StoreDamagedError(f"the store's table meta is damaged: settled is {row[0]!r}")
    return 0 if row is None else row[0]


def load_medians(connection: sqlite3.Connection) -> MedianTable:
    """All medians of the log, in order."""
    medians = MedianTable()
    for row in connection.execute(
        f"SELECT {rows.FACT_COLUMNS} FROM facts INDEXED BY facts_of_medians "
        "WHERE type = 'cost.median.v1' ORDER BY recorded"
    ):
        fact = rows.fact_of(row)
        if not isinstance(fact.event, CostMedianEvent):
            raise StoreDamagedError(
                f"the fact recorded at {fact.recorded} is damaged: no median, as its column says; "
                "`trustfold verify` names every such row"
            )
        medians.add(fact.event.data, fact.recorded)
    return medians


def load_key(
    connection: sqlite3.Connection,
    key: Key,
    medians: MedianTable,
    before: int | None = None,
    *,
    skip_unreadable: bool = False,
) -> HeldKey:
    """Re-derive what is known of a key from its facts, those recorded before a moment.

    Raises StoreDamagedError for a fact that cannot be read, or skips it.
    """
    held = HeldKey(key, rows.key_hash(key))
    # A median's own key meets the table again; a fresh one lets it in as the first time.
    table = MedianTable() if key.kind == "cost-median" else medians
    for row in connection.execute(
        f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE key_hash = ? AND recorded < ? "
        "ORDER BY recorded",
        (held.hashed, 2**62 if before is None else before),
    ):
        try:
            fact = rows.fact_of(row)
        except StoreDamagedError:
            if skip_unreadable:
                continue
            raise
        if key_of(fact.event) == key:
            correlate(held.known(table), fact, table)
            note(held, fact.recorded)
    return held


def note(held: HeldKey, recorded: int) -> None:
    """Note a fact that was taken into a key's state."""
    if held.first_recorded is None:
        held.first_recorded = recorded
    held.last_recorded = recorded
    held.facts += 1
    if held.folded is None and getattr(held.state, "folded", False):
        held.folded = recorded


def entries_of(
    connection: sqlite3.Connection, subject: Subject, head: int | None, *, named: bool = False
) -> Iterator[Entry]:
    """A subject's entries in log order, back along `prev` from `head`.

    `named` reads the names of their facts too, which the fold does not need. Raises
    StoreDamagedError where the way back does not end at the subject's first entry.
    """
    columns = ", ".join(f"l.{column}" for column in rows.ENTRY_COLUMNS.split(", "))
    join = ""
    if named:
        columns = f"f.body, {columns}"
        join = "LEFT JOIN facts f ON f.recorded = l.recorded "
    before = owner = None
    for row in connection.execute(
        "WITH RECURSIVE history (position, prev) AS ("
        "  SELECT position, prev FROM ledger WHERE position = ?"
        "  UNION ALL"
        # Never forward: a `prev` that was damaged could lead round for ever.
        "  SELECT l.position, l.prev FROM history h JOIN ledger l ON l.position = h.prev"
        "  WHERE h.prev < h.position"
        f") SELECT l.position, l.prev, l.subject_id, {columns} "
        f"FROM history JOIN ledger l USING (position) {join}ORDER BY position",
        (head,),
    ):
        position, prev, number = row[:3]
        if prev != before or number != (number if owner is None else owner):
            raise broken_history(subject, f"entry {position} names {prev} as the one before it")
        before, owner = position, number
        if named:
            names = None if row[3] is None else names_of(row[3])
            if names is None:
                what = "missing" if row[3] is None else "no event any more"
                raise broken_history(subject, f"the fact of entry {position} is {what}")
            yield rows.entry_of(row[4:], subject, *names)
        else:
            yield rows.entry_of(row[3:], subject)
    if before != head:
        raise broken_history(subject, f"entry {head} is missing")


def broken_history(subject: Subject, why: str) -> StoreDamagedError:
    """What to raise where a subject's entries cannot all be found."""
    return StoreDamagedError(
        f"the ledger of {subject} is damaged: {why}; `trustfold verify` names every such row"
    )


def last_position(connection: sqlite3.Connection, subject_id: int) -> int | None:
    """A subject's latest entry, by reading the whole ledger: for repairs only."""
    (position,) = connection.execute(
        "SELECT max(position) FROM ledger WHERE subject_id = ?", (subject_id,)
    ).fetchone()
    return None if position is None else int(position)
