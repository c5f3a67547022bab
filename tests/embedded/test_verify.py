"""Verify: it accepts what the store wrote, and names every difference under its proof."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.documents import NOTES, closed, decided, numbered
from tests.embedded.feeding import feed, ingest, query, some_examples, store_in_a_folder
from tests.embedded.rollbacks import rolled_back_histories
from tests.embedded.tampering import SOMETHING_OF_EVERYTHING, found, tamper, verified
from tests.oracles.histories import RECORDED_FROM, Draft
from trustfold_schemas.scores import State, record_of
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore


@pytest.fixture
def written(path: Path, store: EmbeddedStore) -> Path:
    """A closed store that holds something of everything."""
    store.ingest(numbered(SOMETHING_OF_EVERYTHING), batch=4)
    store.close()
    return path


# ---- what the store wrote --------------------------------------------------------------------


@some_examples
@given(history=rolled_back_histories(), size=st.sampled_from((1, 7, 1_000)))
def test_what_the_store_wrote_is_proven(history: list[Draft], size: int) -> None:
    """Any history verifies, and the report counts all that the store holds and names its head."""
    clock = ManualClock(RECORDED_FROM)
    with store_in_a_folder(clock) as store:
        feed(store, clock, history, size)
        report, status = store.verify(), store.status()
        assert report.findings == []
        assert (report.facts, report.entries) == (status.facts, status.entries)
        assert (report.subjects, report.traces) == (status.subjects, status.traces)
        ((letters,),) = query(store.path, "SELECT count(*) FROM dead_letters")
        assert report.dead_letters == letters
        assert report.head == status.head


def test_something_of_everything_is_proven(written: Path) -> None:
    """The history that the tests below tamper with is sound to begin with."""
    report = verified(written)
    assert report.findings == []
    assert report.facts == 14
    assert {kind for (kind,) in query(written, "SELECT DISTINCT kind FROM ledger")} == set(
        range(1, 8)
    )


def test_an_empty_store_is_proven(path: Path, store: EmbeddedStore) -> None:
    """A store without facts has nothing wrong with it."""
    assert store.verify().findings == []
    assert verified(path).facts == 0


def test_verify_tells_how_far_it_is(written: Path) -> None:
    """`advance` hears of every fact in order, for a progress bar."""
    told: list[int] = []
    with EmbeddedStore.open(written, "read") as store:
        report = store.verify(advance=told.append)
    assert told == list(range(1, report.facts + 1))


# ---- the anchor ------------------------------------------------------------------------------


@some_examples
@given(history=rolled_back_histories(), data=st.data())
def test_a_cut_tail_is_found_by_the_anchor_only(history: list[Draft], data: st.DataObject) -> None:
    """A file rebuilt without its last facts is sound in itself; the head kept elsewhere is not."""
    heads = []
    kept = history[: data.draw(st.integers(0, len(history)))]
    for some in (history, kept):
        clock = ManualClock(RECORDED_FROM)
        with store_in_a_folder(clock) as store:
            feed(store, clock, some, 1)
            facts, head = store.status().facts, store.status().head
            assert store.verify().findings == []
            assert store.verify(head).findings == []
            heads.append((facts, head))
            if some is kept:
                report = store.verify(heads[0][1])
                assert report.ok == (heads[0] == heads[1])
                assert found(report) <= {"facts"}
    assert (heads[0][0] == heads[1][0]) == (heads[0][1] == heads[1][1])


def test_every_head_that_the_log_had_is_an_anchor(store: EmbeddedStore, clock: ManualClock) -> None:
    """An anchor noted at any time, the empty log's included, is accepted later."""
    anchors = [store.status().head]
    for number in range(5):
        clock.advance(1_000)
        ingest(store, closed(f"t{number}"), decided(f"t{number}"))
        anchors.append(store.status().head)
    assert len(set(anchors)) == 6
    for anchor in anchors:
        report = store.verify(anchor)
        assert report.findings == []
        assert (report.anchor, report.head) == (anchor, anchors[-1])


def test_an_anchor_of_another_log_is_refused(store: EmbeddedStore) -> None:
    """A head that this log never had is one finding, which names it."""
    ingest(store, closed("t1"))
    (finding,) = store.verify("ab" * 32).findings
    assert finding.proof == "facts"
    assert "ab" * 32 in finding.difference


# ---- what was changed behind its back --------------------------------------------------------

LAST = "(SELECT max(recorded) FROM facts)"
CLOSE_T1 = "json_extract(body, '$.id') = 'close/t1'"
COPY = "recorded, subject_id, prev, kind, revision, occurred, chain, a0, a1, a2, a3, a4, w0, w1, "
COPY += "w2, w3, w4, n, sp_a, sp_w, bad_at, grant_at, clean, median_usd, to_moment, rollback_id"


@pytest.mark.parametrize(
    ("change", "proofs"),
    [
        (f"UPDATE facts SET body = replace(body, 'ok', 'error') WHERE {CLOSE_T1}", {"facts"}),
        (f"UPDATE facts SET body = '{{}}' WHERE {CLOSE_T1}", {"facts"}),
        (f"UPDATE facts SET body = body || ' ' WHERE {CLOSE_T1}", {"facts"}),
        (f"UPDATE facts SET body = CAST(x'ff' AS TEXT) WHERE {CLOSE_T1}", {"facts"}),
        (f"UPDATE facts SET recorded = recorded + 1 WHERE recorded = {LAST}", {"facts", "ledger"}),
        (f"UPDATE facts SET recorded = {2**63 - 1} WHERE recorded = {LAST}", {"facts", "ledger"}),
        (f"UPDATE facts SET role = 'human' WHERE recorded = {LAST}", {"facts"}),
        (f"UPDATE facts SET identity = 'ann' WHERE recorded = {LAST}", {"facts"}),
        (f"UPDATE facts SET scopes = '[\"x\"]' WHERE recorded = {LAST}", {"facts"}),
        (f"UPDATE facts SET scopes = 'x' WHERE recorded = {LAST}", {"facts"}),
        (f"UPDATE facts SET chain = zeroblob(32) WHERE recorded = {LAST}", {"facts"}),
        (f"UPDATE facts SET type = 'trace.closed.v2' WHERE {CLOSE_T1}", {"facts"}),
        (f"UPDATE facts SET key_hash = key_hash + 1 WHERE {CLOSE_T1}", {"facts"}),
        (f"DELETE FROM facts WHERE {CLOSE_T1}", {"facts", "ledger", "traces"}),
        (f"DELETE FROM facts WHERE recorded = {LAST}", {"ledger", "traces"}),
        ("DELETE FROM ledger WHERE position = 2", {"ledger", "table"}),
        ("DELETE FROM ledger WHERE position = (SELECT max(position) FROM ledger)", {"ledger"}),
        (
            f"INSERT INTO ledger ({COPY}) SELECT {COPY} FROM ledger WHERE position = 2",
            {"ledger", "table"},
        ),
        ("UPDATE ledger SET a0 = a0 - 1 WHERE position = 1", {"ledger", "table"}),
        ("UPDATE ledger SET clean = 0 WHERE position = 1", {"ledger"}),
        ("UPDATE ledger SET occurred = occurred + 1 WHERE position = 1", {"ledger", "table"}),
        (f"UPDATE ledger SET occurred = {2**63 - 1} WHERE position = 1", {"ledger", "table"}),
        (f"UPDATE ledger SET occurred = {-(2**63)} WHERE position = 1", {"ledger", "table"}),
        (f"UPDATE ledger SET recorded = {2**63 - 1} WHERE position = 1", {"ledger"}),
        ("UPDATE ledger SET recorded = recorded + 1 WHERE position = 1", {"ledger"}),
        ("UPDATE ledger SET subject_id = 99 WHERE position = 1", {"ledger", "table"}),
        ("UPDATE ledger SET kind = 99 WHERE position = 1", {"ledger"}),
        ("UPDATE ledger SET kind = 99 WHERE kind = 6", {"ledger"}),
        ("UPDATE ledger SET chain = 'x' WHERE kind = 2", {"ledger"}),
        ("UPDATE ledger SET chain = 'x' WHERE kind = 6", {"ledger"}),
        ("UPDATE ledger SET to_moment = to_moment - 9 WHERE rollback_id = 'r1'", {"ledger"}),
        ("UPDATE ledger SET rollback_id = 'r9' WHERE kind = 7", {"ledger", "table"}),
        ("UPDATE scores SET content = replace(content, '\"1\"', '\"2\"')", {"table"}),
        ("UPDATE scores SET content = 'x' WHERE subject_id = 1", {"table"}),
        ("UPDATE scores SET content = CAST(x'ff' AS TEXT) WHERE subject_id = 1", {"table"}),
        ("UPDATE scores SET digest = zeroblob(32) WHERE subject_id = 1", {"table"}),
        ("UPDATE scores SET checksum = zeroblob(32) WHERE subject_id = 1", {"table"}),
        ("UPDATE scores SET beside = replace(beside, ']', ' ]')", {"table"}),
        ("DELETE FROM scores WHERE subject_id = 1", {"table"}),
        (
            "INSERT INTO scores SELECT 99, content, beside, digest, checksum FROM scores LIMIT 1",
            {"table"},
        ),
        ("INSERT INTO subjects VALUES (99, '', 'forged', 'invoke')", {"table"}),
        ("UPDATE subjects SET tool = 'forged' WHERE subject_id = 1", {"ledger", "table"}),
        ("DELETE FROM subjects WHERE subject_id = 1", {"ledger", "table"}),
        ("UPDATE traces SET outcome = 'failed' WHERE trace_id = 't1'", {"traces"}),
        ("UPDATE traces SET facts = facts + 1 WHERE trace_id = 't1'", {"traces"}),
        ("DELETE FROM traces WHERE trace_id = 't1'", {"traces"}),
        ("UPDATE traces SET first_recorded = first_recorded - 1", {"traces"}),
        ("UPDATE dead_letters SET body = x'00' WHERE reason = 'malformed'", {"dead letters"}),
        ("UPDATE dead_letters SET body_sha256 = x'00'", {"dead letters"}),
        ("UPDATE dead_letters SET reason = 'unheard_of'", {"dead letters"}),
    ],
)
def test_a_change_is_named_under_its_proof(written: Path, change: str, proofs: set[str]) -> None:
    """Whatever row was changed, added or taken away, at least these proofs break."""
    tamper(written, change)
    assert proofs <= found(verified(written))


def test_one_changed_fact_is_one_break_of_the_chain(written: Path) -> None:
    """The chain breaks where the fact was changed, and the facts after it hold to its chain."""
    tamper(written, f"UPDATE facts SET identity = 'ann' WHERE {CLOSE_T1}")
    (finding,) = verified(written).findings
    ((moment,),) = query(written, f"SELECT recorded FROM facts WHERE {CLOSE_T1}")
    assert finding.where == f"fact 2026-05-29T00:00:00.{moment % 1_000_000:06d}Z"


def test_one_missing_entry_at_the_end_is_one_finding(written: Path) -> None:
    """A difference is named once, with the entry that the facts derive."""
    tamper(written, "DELETE FROM ledger WHERE position = (SELECT max(position) FROM ledger)")
    findings = [one for one in verified(written).findings if one.proof == "ledger"]
    assert len(findings) == 1
    assert "t1" in findings[0].where


def test_a_forged_score_that_is_sealed_well_is_found(written: Path) -> None:
    """A record with the right digest and checksum, but not the ledger's numbers, is found."""
    with EmbeddedStore.open(written, "read") as store:
        state = store.state(NOTES)
    assert state is not None
    _forge(written, state, n_samples=state.n_samples + 100)
    (finding,) = verified(written).findings
    assert finding.proof == "table"
    assert NOTES.tool in finding.where


def test_a_forged_version_is_found(written: Path) -> None:
    """What stands beside the content is compared too: rollbacks in force, version, position."""
    with EmbeddedStore.open(written, "read") as store:
        state = store.state(NOTES)
    assert state is not None
    assert len(state.rollbacks) == 1
    _forge(written, state, rollbacks=())
    (finding,) = verified(written).findings
    assert finding.proof == "table"


def _forge(path: Path, state: State, **changes: Any) -> None:
    forged = copy.copy(state)
    for name, value in changes.items():
        setattr(forged, name, value)
    ((number, position),) = query(
        path,
        "SELECT subject_id, json_extract(beside, '$[2]') FROM scores JOIN subjects "
        "USING (subject_id) WHERE (scope, tool, effect) = (?, ?, ?)",
        *state.subject,
    )
    record = record_of(forged, position)
    tamper(
        path,
        "UPDATE scores SET content = ?, beside = ?, digest = ?, checksum = ? WHERE subject_id = ?",
        values=(
            record.content.decode(),
            record.beside.decode(),
            record.digest,
            record.checksum,
            number,
        ),
    )


def test_the_scores_of_two_subjects_cannot_change_places(written: Path) -> None:
    """A record is bound to its subject, however well it is sealed."""
    tamper(
        written,
        "UPDATE scores SET subject_id = -subject_id WHERE subject_id IN (1, 2)",
        "UPDATE scores SET subject_id = 3 + subject_id WHERE subject_id < 0",
    )
    assert found(verified(written)) == {"table"}


def test_a_second_fact_of_a_trace_whose_first_is_no_event_any_more(written: Path) -> None:
    """Damage to one fact is named, and the facts of its key that follow are still looked at."""
    tamper(written, "UPDATE facts SET body = '{}' WHERE body LIKE '%\"step/t1/stray\"%'")
    report = verified(written)
    assert {"facts", "traces"} <= found(report)
    assert report.facts == 14


def test_more_findings_than_can_be_named_are_counted(path: Path, store: EmbeddedStore) -> None:
    """A file that is wrong all over gives a bounded report that says how much it left out."""
    ingest(store, *(closed(f"t{number}") for number in range(600)))
    store.close()
    tamper(path, "UPDATE ledger SET a0 = 7")
    report = verified(path)
    assert len(report.findings) == 1_000
    assert report.findings_unnamed >= 200
    assert not report.ok
