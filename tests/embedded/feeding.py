"""Feeds histories of the oracle to a store, and foresees what the law makes of them.

A store records a fact at its clock's moment, or one microsecond after the fact before. Here the
clock is ours, so that the recorded moments are known and the law can be run on the same facts.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings

from tests.laws.runs import Run
from tests.oracles.batch import Told
from tests.oracles.histories import RECORDED_FROM, Draft, recorded_at
from trustfold_projections.laws.correlation import Outcome, Verdict
from trustfold_schemas.facts import OWNER, Stamp
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import Document, EmbeddedStore, Receipt, Summary

some_examples = settings(max_examples=max(10, settings().max_examples // 4))
"""Every example writes a file, so there are fewer of them than of the pure laws'."""

FOLDERS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""In memory where that is possible: hundreds of small files, and no power fails in a test."""

NOBODY_HELD = 10.0
"""Seconds to wait for a lock that nobody should hold for long."""


@contextlib.contextmanager
def store_in_a_folder(clock: ManualClock | None = None) -> Generator[EmbeddedStore]:
    """A new store in a folder of its own: one for each example, as a fixture could not be."""
    with tempfile.TemporaryDirectory(dir=FOLDERS) as folder:
        clock = clock or ManualClock(RECORDED_FROM)
        with EmbeddedStore.open(Path(folder) / "trust.db", clock=clock) as store:
            yield store


@contextlib.contextmanager
def beside(store: EmbeddedStore) -> Generator[EmbeddedStore]:
    """A second store object on the same file, with the same clock."""
    with EmbeddedStore.open(store.path, "write", clock=store.clock) as second:
        yield second


def stamp_of(draft: Draft) -> Stamp:
    """The publisher of a draft."""
    role, identity, scopes, _ = draft
    return Stamp(role, identity, scopes)  # type: ignore[arg-type]


def by_one_owner(history: Sequence[Draft]) -> list[Draft]:
    """The same history published by one owner, so that batches are of the size asked for."""
    return [("owner", None, None, event) for *_, event in history]


def chunks(history: Sequence[Draft], size: int) -> Iterator[tuple[int, Sequence[Draft]]]:
    """Runs of at most `size` drafts, each with the clock's moment at which it is ingested."""
    for start in range(0, len(history), size):
        yield recorded_at(start), history[start : start + size]


def feed(
    store: EmbeddedStore,
    clock: ManualClock,
    history: Sequence[Draft],
    size: int,
    start: int | None = None,
) -> tuple[Summary, list[Receipt]]:
    """Ingest a history in batches, each at its moment; batches are cut where publishers change."""
    receipts: list[Receipt] = []
    for moment, some in chunks(history, size):
        clock.moment = start or moment
        for stamp, spoken in groupby(some, key=stamp_of):
            documents = [Document(msgspec.json.encode(draft[3]), "a history") for draft in spoken]
            store.ingest(documents, stamp, batch=size, committed=receipts.extend)
    summary = Summary()
    summary.count(receipts)
    return summary, receipts


def foreseen(history: Sequence[Draft], size: int) -> tuple[Run, list[Told]]:
    """What the law makes of a history that is ingested so, and the facts with their moments."""
    run, facts, last = Run(), list[Told](), 0
    for moment, some in chunks(history, size):
        for draft in some:
            told = Told(max(moment, last + 1), *draft)
            facts.append(told)
            if run.take(told).remembered:
                last = told.recorded
    return run, facts


def counted(outcome: Outcome, position: int) -> str:
    """Under what a document is counted, by the law's answer to it."""
    if outcome.verdict is Verdict.DUPLICATE:
        return "duplicates"
    if not any(refusal.position == position for refusal in outcome.refusals):
        return "accepted"
    return "conflicts" if outcome.conflict else "dead_letters"


def digests(states: Iterable[State | Corrupt]) -> dict[Subject, str]:
    """The content digests of a table without corrupt records."""
    found = {}
    for state in states:
        assert isinstance(state, State), state
        found[state.subject] = content_digest(state)
    return found


def ingest(store: EmbeddedStore, *bodies: bytes, stamp: Stamp = OWNER) -> list[Receipt]:
    """Ingest bodies in one batch."""
    receipts: list[Receipt] = []
    documents = [Document(body, f"test:{n}") for n, body in enumerate(bodies, start=1)]
    store.ingest(documents, stamp, committed=receipts.extend)
    return receipts


def query(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Read the store's tables as any program can."""
    with contextlib.closing(sqlite3.connect(path, timeout=NOBODY_HELD)) as connection:
        return connection.execute(statement, values).fetchall()
