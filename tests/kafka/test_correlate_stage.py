"""The stage `correlate` over logs in memory: what it writes, and how another goes on from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.loads import START
from tests.embedded.documents import event
from tests.kafka.wide import WIDE, answer, recorded_wide, wide_step
from tests.laws.runs import Run
from tests.oracles.batch import Told
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.laws.correlation import key_of, log_key_of
from trustfold_projections.laws.correlation.packed import pack_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import DAY
from trustfold_schemas.packed import unpack_envelope
from trustfold_streams.kafka import trace_rows
from trustfold_streams.kafka.correlate import CorrelateStage, CorrelateTask
from trustfold_streams.kafka.records import letter_from, stamp_headers
from trustfold_streams.kafka.stage import Record
from trustfold_streams.kafka.topic_rules import MEBIBYTE
from trustfold_streams.kafka.trace_rows import Rows

RECORDED_MS = 2_000_000_000_000


class Logs:
    """The logs of one partition, and a task that works on them, exchanged now and then."""

    def __init__(self, memory: int = 14 * DAY) -> None:
        self.facts: list[Record] = []
        self.traces: list[tuple[bytes, bytes | None]] = []
        self.entries: list[Any] = []
        self.letters: list[Any] = []
        self.written: list[int] = []
        self._stage = CorrelateStage(lambda name: name, 1, None, memory, self._medians)
        self.task = self._stage.task(0, self._lookup)

    async def _medians(self) -> MedianTable:
        return MedianTable()

    async def _lookup(
        self, topic: str, partition: int, first: int, end: int
    ) -> AsyncIterator[Record]:
        assert (topic, partition) == ("facts", 0)
        for record in self.facts[first:end]:
            yield record

    def take(self, documents: Sequence[bytes], role: Any = "owner", later: int = 0) -> None:
        """One batch, `later` so many milliseconds after the last."""
        moment = RECORDED_MS + len(self.facts) + later
        batch = [
            Record(
                "facts",
                0,
                len(self.facts) + n,
                moment,
                log_key_of(decode_event(one)).encode(),
                one,
                stamp_headers(Stamp(role)),
            )
            for n, one in enumerate(documents)
        ]
        self.facts += batch
        made = asyncio.run(self.task.process(batch))
        for key, value in made.states.items():
            assert len(key) + len(value or b"") < 2 * MEBIBYTE
            self.traces.append((key, value))
        self.written.append(sum(len(value or b"") for value in made.states.values()))
        for output in made.outputs:
            assert len(output.value or b"") < 4 * MEBIBYTE
            if output.topic == "ledger":
                self.entries += [one.entry for one in unpack_envelope(output.value or b"")]
            else:
                self.letters.append(letter_from(output.value, output.headers))

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        """The topic `traces` as compaction leaves it."""
        last = {key: n for n, (key, _) in enumerate(self.traces)}
        return [self.traces[n] for n in sorted(last.values())]

    def restart(self, *, compact: bool = False) -> CorrelateTask:
        """Another task goes on from what the topic holds."""
        self.task = self._stage.task(0, self._lookup)
        for key, value in self.compacted() if compact else self.traces:
            self.task.load(key, value)
        return self.task

    def known(self, document: bytes) -> bytes:
        """What the topic holds of the trace of an event, in one piece."""
        rows = Rows()
        for key, value in self.compacted():
            if key != trace_rows.CLOCK:
                rows.take(key, value)
        name = key_of(decode_event(document))
        return pack_state(rows.rows[name].state(name, MedianTable()))


def batches(documents: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    """So many at a time."""
    return (documents[at : at + size] for at in range(0, len(documents), size))


def by_the_law(documents: Sequence[bytes]) -> Run:
    """What the law makes of them; moments differ."""
    made = Run()
    for number, one in enumerate(documents):
        made.take(Told(2_000_000_000_000_000 + number, "owner", None, None, _json(one)))
    return made


def _json(document: bytes) -> Any:
    return msgspec.json.decode(document)


def must_be(logs: Logs, run: Run) -> None:
    """The ledger's sums are the law's, subject by subject."""
    found = sorted((e.subject, e.kind, e.revision, e.amounts, e.weights) for e in logs.entries)
    assert found == sorted(
        (e.subject, e.kind, e.revision, e.amounts, e.weights) for e in run.ledger
    )
    assert sorted(one.reason for one in logs.letters) == sorted(run.reasons.elements())


@pytest.mark.parametrize("compact", [False, True])
def test_a_wide_trace_is_kept_in_parts(monkeypatch: pytest.MonkeyPatch, *, compact: bool) -> None:
    """Steps and answers with the widest names, restarted after every batch: the law's entries."""
    monkeypatch.setattr(trace_rows, "WHOLE_MAX", 4 << 10)
    monkeypatch.setattr(trace_rows, "PIECE_MAX", 16 << 10)
    ids = [wide_step(n)["step_id"] for n in range(600)]
    load = [recorded_wide("wide", n, many=n % 3 == 0) for n in range(600)]
    load[300:300] = [answer(n, [*ids[n * 50 : n * 50 + 90], "unknown"]) for n in range(5)]
    close = {"trace_id": "wide", "outcome": "done", "steps": [], "step_count": 600}
    load.append(event("trace.closed", "close", close, START))
    load += [answer(100 + n, ids[n * 7 : n * 7 + 3]) for n in range(30)]
    logs, undisturbed = Logs(), Logs()
    for some in batches(load, 83):
        undisturbed.take(some)
        logs.take(some)
        logs.restart(compact=compact)
    must_be(logs, by_the_law(load))
    assert logs.known(load[0]) == undisturbed.known(load[0])


def test_parts_that_did_not_change_are_not_written_again() -> None:
    """A step more of a long trace costs a part of each collection, and not the whole of it."""
    logs = Logs()
    logs.take([recorded_wide("long", n) for n in range(2_000)])
    logs.take([recorded_wide("long", 2_000)])
    whole, one_more = logs.written
    assert whole > 8 * MEBIBYTE
    assert one_more < whole / 5


def test_what_is_folded_leaves_no_parts_behind() -> None:
    """What waited for the fold is deleted with it; a row that becomes small is one record."""
    logs = Logs()
    unknown = [f"{n}{WIDE * 200}" for n in range(800)]
    logs.take([answer(0, unknown, "t")])
    assert len(logs.compacted()) > 2
    close = {"trace_id": "t", "outcome": "done", "steps": [wide_step(0)]}
    logs.take([event("trace.closed", "close", close, START)])
    alive = {key for key, value in logs.compacted() if value is not None}
    assert not any(b"waiting_for_fold" in key for key in alive)
    assert [one.reason for one in logs.letters] == ["unknown_step"]
    assert logs.letters[0].body == logs.facts[0].value


def test_a_forgotten_trace_leaves_nothing_behind() -> None:
    """When the memory of a large trace ends, its row and all its parts are deleted."""
    logs = Logs()
    logs.take([recorded_wide("long", n) for n in range(300)])
    logs.restart()
    logs.take([recorded_wide("other", 0)], later=15 * DAY // 1_000)
    alive = [key for key, value in logs.compacted() if value is not None]
    assert not any(b"long" in key for key in alive)
    assert logs.restart(compact=True)._open.keys() == set()
    logs.take([recorded_wide("other", 1)], later=15 * DAY // 1_000)
    assert {key.name for key in logs.task._open} == {"other"}


def test_feedback_that_names_nothing_known_is_looked_up_together() -> None:
    """A thousand answers that named a step that never came are a thousand letters, soon."""
    logs = Logs()
    answers = [answer(n, [f"nobody{n}"], "t") for n in range(1_000)]
    for some in batches(answers, 100):
        logs.take(some)
    asked: list[int] = []
    inner = logs.task.lookup

    def counted(topic: str, partition: int, first: int, end: int) -> AsyncIterator[Record]:
        asked.append(first)
        return inner(topic, partition, first, end)

    logs.task.lookup = counted
    close = {"trace_id": "t", "outcome": "done", "steps": [wide_step(0)]}
    logs.take([event("trace.closed", "close", close, START)])
    assert [one.body for one in logs.letters] == answers
    assert len(asked) == 1


@given(wild_histories(), st.integers(1, 8), st.booleans())
def test_any_history_in_any_batches_with_restarts(
    history: list[Draft], size: int, compact: bool
) -> None:
    """Whatever is known when a task goes on, the entries and refusals are the law's."""
    documents = [
        document
        for one in told(history)
        if not isinstance(decode_event(document := msgspec.json.encode(one.event)), CostMedianEvent)
    ]
    logs = Logs()
    for some in batches(documents, size):
        logs.take(some)
        logs.restart(compact=compact)
    must_be(logs, by_the_law(documents))


def closed(number: int, tool: str = "fs_write", **more: Any) -> bytes:
    """The close of a trace of one step."""
    step = {"step_id": "1", "tool": tool, "effect": "fs_write:~/*", "status": "ok"}
    data = {"trace_id": f"t{number}", "outcome": "done", "steps": [step], **more}
    return event("trace.closed", f"close/{number}", data, START)


def test_a_close_that_is_all_is_kept_as_it_came() -> None:
    """Its row is its document; its state comes of it when more is said, after a restart too."""
    logs = Logs()
    closes = [closed(n) for n in range(5)]
    logs.take(closes)
    rows = {key: value or b"" for key, value in logs.compacted()}
    assert [one for one in closes if any(value.endswith(one) for value in rows.values())] == closes
    logs.restart(compact=True)
    said = [*closes, closed(1, "other"), *(answer(n, ["1"], f"t{n}") for n in range(3))]
    for some in batches(said, 2):
        logs.take(some)
        logs.restart(compact=True)
    must_be(logs, by_the_law([*closes, *said]))
    assert [one.reason for one in logs.letters] == ["conflict"]
    assert all(held.state is None for held in logs.task._held.values())


def test_a_close_that_is_large_is_kept_as_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has a size: the close of many steps is kept in parts, as any large state."""
    monkeypatch.setattr(trace_rows, "WHOLE_MAX", 1 << 10)
    steps = [wide_step(n) for n in range(90)]
    logs = Logs()
    logs.take([closed(0, steps=steps)])
    assert sum(key.startswith(trace_rows.PART) for key, _ in logs.compacted()) > 1
    logs.restart(compact=True)
    logs.take([answer(0, [steps[89]["step_id"]], "t0")])
    must_be(logs, by_the_law([closed(0, steps=steps), answer(0, [steps[89]["step_id"]], "t0")]))


def test_a_close_of_long_ago_is_refused_as_before() -> None:
    """Memory ends for what closes at once, too."""
    logs = Logs()
    logs._stage.memory = 14 * DAY
    logs.take([closed(0)])
    assert [one.reason for one in logs.letters] == ["too_old"]
    assert not logs.entries
