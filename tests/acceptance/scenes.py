"""A store with a clock that moves when told, read under either formula: the acceptance stage."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from trustfold_projections.laws.elapsed import elapsed_digest, elapsed_score, elapsed_state
from trustfold_projections.laws.time_weights import ZERO
from trustfold_schemas.instants import DAY, HOUR, SECOND, format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.receipts import Document, Receipt
from trustfold_schemas.scores import content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

WRITE = Subject("", "fs_write", "fs_write:~/notes/*")
ALPHA = Subject("", "neuron:alpha", "invoke")
START = ZERO + 2300 * DAY
ROBERTO = {"kind": "human", "id": "roberto"}
BEST: dict[str, Any] = {
    "tool_success": 1.0,
    "human_approval_delta": 1.0,
    "cost_efficiency": 1.0,
    "constitution_clean": 1.0,
    "undo_flag": 0.0,
}


class Setting(NamedTuple):
    """The formula under which a row must hold, and the time between two traces."""

    formula: str
    spacing: int


SETTINGS = (
    pytest.param(Setting("ewm/1", 10 * SECOND), id="ewm/1-10-seconds"),
    pytest.param(Setting("ewm/1", HOUR), id="ewm/1-hour"),
    pytest.param(Setting("ewm/1", DAY), id="ewm/1-day"),
    pytest.param(Setting("ewm/1", 7 * DAY), id="ewm/1-week"),
    pytest.param(Setting("elapsed/1", DAY), id="elapsed/1-day"),
)


class Seen(NamedTuple):
    """What a subject's history comes to, under either formula."""

    score: float
    n_samples: int
    human_approval_rate: float
    constitution_clean: float


class Scene:
    """A store with a clock that moves when told, read under one formula."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, setting: Setting) -> None:
        self.store = store
        self.clock = clock
        self.formula, self.spacing = setting
        self.said = 0
        # So that a trace which costs nothing has the best cost_efficiency.
        for subject in (WRITE, ALPHA):
            self.say(
                "cost.median",
                effect=subject.effect,
                median_usd=1,
                samples=20,
                effective_at=format_instant(ZERO),
            )

    def say(self, kind: str, moment: int | None = None, **data: Any) -> Receipt:
        """Ingest one event under a new id; it happens now unless a moment is given."""
        self.said += 1
        event = {
            "specversion": "1.0",
            "id": f"e{self.said}",
            "source": "laptop",
            "type": f"trustfold.{kind}.v1",
            "time": format_instant(self.clock.now() if moment is None else moment),
            "data": data,
        }
        receipts: list[Receipt] = []
        document = Document(msgspec.json.encode(event), f"line {self.said}")
        self.store.ingest([document], committed=receipts.extend)
        return receipts[0]

    def trace(self, trace_id: str, subject: Subject = WRITE, **data: Any) -> Receipt:
        """Let time pass, then close a trace with one step, at its best but for what is given."""
        self.clock.advance(self.spacing)
        step = {"step_id": "a", "tool": subject.tool, "effect": subject.effect, "status": "ok"}
        head: dict[str, Any] = {
            "trace_id": trace_id,
            "outcome": "done",
            "cost_usd": 0,
            "steps": [step],
        }
        return self.say("trace.closed", **(head | data))

    def approved_trace(self, trace_id: str, **data: Any) -> None:
        """A trace whose step a human granted, at its best but for what is given."""
        self.trace(trace_id, **data)
        self.say("approval.decided", trace_id=trace_id, decision="granted", decided_by=ROBERTO)

    def seen(self, subject: Subject = WRITE) -> Seen | None:
        """What the store says of a subject now; None if it knows nothing."""
        if self.formula == "ewm/1":
            score = self.store.get(subject)
            if score is None:
                return None
            return Seen(
                score.score, score.n_samples, score.human_approval_rate, score.constitution_clean
            )
        state = elapsed_state(subject, self.store.entries(subject))
        if state.n_samples == 0:
            return None
        return Seen(
            elapsed_score(state, self.clock.now()),
            state.n_samples,
            state.human_approval_rate,
            state.constitution_clean,
        )

    def known(self, subject: Subject = WRITE) -> Seen:
        """What the store says of a subject that it knows."""
        seen = self.seen(subject)
        assert seen is not None
        return seen

    def digest(self) -> str:
        """All bits of what the notes' history comes to."""
        if self.formula == "elapsed/1":
            return elapsed_digest(elapsed_state(WRITE, self.store.entries(WRITE)))
        state = self.store.state(WRITE)
        assert state is not None
        return content_digest(state)

    def rolled_back_part(self) -> object:
        """What a rollback goes back with: all but `last_bad_at`, which nothing lowers."""
        if self.formula == "elapsed/1":
            return self.digest()
        state = self.store.state(WRITE)
        assert state is not None
        return state.num, state.den, state.n_samples, state.last_updated, state.last_grant_at

    def count(self) -> int:
        """How many rows the view `events` has."""
        with closing(sqlite3.connect(self.store.path)) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM events").fetchone()[0])

    def rows(self, subject: Subject) -> Sequence[tuple[Any, ...] | Entry]:
        """A subject's rows: those of the view `events`, or as `elapsed/1` reads the ledger."""
        if self.formula == "elapsed/1":
            return list(self.store.entries(subject))
        with closing(sqlite3.connect(self.store.path)) as connection:
            return connection.execute(
                "SELECT * FROM events WHERE (scope, tool, effect) = (?, ?, ?) ORDER BY position",
                subject,
            ).fetchall()


@contextmanager
def opened(folder: Path, setting: Setting) -> Iterator[Scene]:
    """A new store in a folder."""
    folder.mkdir(exist_ok=True)
    clock = ManualClock(START)
    with EmbeddedStore.open(folder / "trust.db", clock=clock) as store:
        # No row is about power cuts, and waiting for the disk would be most of the time.
        store._connection.execute("PRAGMA synchronous=OFF")
        yield Scene(store, clock, setting)
