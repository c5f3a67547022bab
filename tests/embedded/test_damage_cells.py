"""One changed value in any column of any table is named by verify; `repair` mends the caches.

Whoever changed it went around the triggers, or it was a fault of the disk that SQLite cannot see.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedded.damage import (
    Column,
    changed,
    columns_of,
    content_digests,
    contents,
    damaged_copy,
    full_store,
    open_store,
    proofs,
    report_on,
    some_rows,
)
from tests.embedded.documents import closed, numbered
from tests.embedded.tampering import tamper
from trustfold_streams.embedded.errors import StoreDamagedError

PROOF = {
    "facts": "facts",
    "subjects": "ledger",
    "ledger": "ledger",
    "scores": "table",
    "traces": "traces",
    "dead_letters": "dead letters",
    "meta": "file",
}
"""The proof that breaks when a row of the table is changed."""

HARMLESS = {
    # What a person types to name the letter; nothing refers to it.
    "dead_letters.dead_letter_id",
    # Prose for whoever mends the document; the reason beside it is proven.
    "dead_letters.detail",
    # Where its bytes last came from: for finding the file, and no part of what a replay says.
    "dead_letters.origin",
    # When it came and how often: shown, and the input of nothing.
    "dead_letters.first_recorded",
    "dead_letters.last_recorded",
    "dead_letters.times",
}
"""Columns that no score, no verdict and no replay is computed from."""

NOTED = {
    # Set or not is proven against replayed_as; which moment it was is shown, and no more.
    "dead_letters.replayed",
    # A moment later the log will only record later; a value that is no moment is found.
    "meta.value",
}
"""Columns of which only some changes are harmless; each has a test of its own below."""


def every_column(*tables: str) -> pytest.MarkDecorator:
    """A test for each column of these tables of which any change must be found."""
    return pytest.mark.parametrize(
        "column",
        [one for one in columns_of(*tables) if str(one) not in HARMLESS | NOTED],
        ids=str,
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that verifies."""
    path = tmp_path_factory.mktemp("sound") / "trust.db"
    full_store(path)
    assert report_on(path).findings == []
    return path


def copies(sound: Path, folder: Path, column: Column) -> list[Path]:
    """Copies of the store, each with one cell of the column changed, in a few rows."""
    return [
        damaged_copy(sound, folder, column, key, changed(column, old), number)
        for number, (key, old) in enumerate(some_rows(contents(sound), column))
    ]


@every_column(*PROOF)
def test_a_changed_cell_is_named_under_its_proof(
    sound: Path, tmp_path: Path, column: Column
) -> None:
    """The next number, one other character, one other byte, a value for NULL: all are found."""
    for path in copies(sound, tmp_path, column):
        report = report_on(path)
        assert PROOF[column.table] in proofs(report), report.findings
        assert all(finding.where and finding.difference for finding in report.findings)


@every_column("scores", "traces")
def test_repair_brings_a_damaged_cache_back(sound: Path, tmp_path: Path, column: Column) -> None:
    """Scores and summaries are again those of the undisturbed store, and verify is ok."""
    for path in copies(sound, tmp_path, column):
        with open_store(path) as store:
            subjects, summaries = store.repair()
            assert len(subjects) + summaries > 0
            assert store.verify().findings == []
        assert content_digests(path) == content_digests(sound)
        assert contents(path) == contents(sound)


@every_column("facts", "ledger", "subjects")
def test_repair_leaves_what_it_cannot_derive(sound: Path, tmp_path: Path, column: Column) -> None:
    """Facts, ledger and subjects stay byte for byte as they are, and verify still names them."""
    for path in copies(sound, tmp_path, column):
        before = contents(path)
        with open_store(path) as store:
            store.repair()
            assert PROOF[column.table] in proofs(store.verify())
        after = contents(path)
        for table in ("facts", "ledger", "subjects"):
            assert after[table] == before[table]


@pytest.mark.parametrize("table", ["scores", "traces"])
def test_repair_brings_back_what_was_deleted(sound: Path, tmp_path: Path, table: str) -> None:
    """A cache that was emptied is derived again whole."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, f"DELETE FROM {table}")
    with open_store(path) as store:
        store.repair()
    assert contents(path) == contents(sound)


@pytest.mark.parametrize("text", ["content", "beside"])
def test_a_score_that_is_no_utf_8_is_no_trust_and_can_be_repaired(
    sound: Path, tmp_path: Path, text: str
) -> None:
    """Bytes that no text can be made of are corrupt like any others; other scores are read."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, f"UPDATE scores SET {text} = CAST(x'5bff' AS TEXT) WHERE subject_id = 1")
    with open_store(path) as store:
        states = store.states()
        assert (len(states), store.corrupt_reads) == (len(contents(sound)["scores"]), 1)
        assert proofs(store.verify()) == {"table"}
        store.repair()
    assert contents(path) == contents(sound)


# ---- what is not found, and why that is no loss ------------------------------------------------


@pytest.mark.parametrize(
    "column", [one for one in columns_of("dead_letters") if str(one) in HARMLESS], ids=str
)
def test_a_changed_remark_on_a_dead_letter_changes_nothing(
    sound: Path, tmp_path: Path, column: Column
) -> None:
    """When, whence and how often a letter came is said to people; nothing follows from it."""
    for path in copies(sound, tmp_path, column):
        assert report_on(path).findings == []
        assert content_digests(path) == content_digests(sound)
        with open_store(path) as store, open_store(sound) as other:
            letters, others = (s.dead_letters(replayed=True) for s in (store, other))
            assert sorted((one.reason, one.stamp, one.body) for one in letters) == sorted(
                (one.reason, one.stamp, one.body) for one in others
            )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("replayed = replayed + 1 WHERE replayed IS NOT NULL", False),
        ("replayed = NULL WHERE replayed IS NOT NULL", True),
        ("replayed = 1 WHERE replayed IS NULL", True),
        ("replayed_as = NULL WHERE replayed IS NOT NULL", True),
        ("replayed = 1, replayed_as = 'made up' WHERE replayed IS NULL", True),
    ],
)
def test_a_dead_letter_cannot_be_hidden_as_replayed(
    sound: Path, tmp_path: Path, change: str, found: bool
) -> None:
    """One that counts as taken in must have been, under an id that the log holds."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, f"UPDATE dead_letters SET {change}")
    assert proofs(report_on(path)) == ({"dead letters"} if found else set())


def test_a_later_settled_moment_only_makes_the_log_record_later(
    sound: Path, tmp_path: Path
) -> None:
    """What was answered as of a moment stays true, and the next fact comes after it."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, "UPDATE meta SET value = value + 1")
    (((_, settled),)) = contents(path)["meta"]
    with open_store(path) as store:
        assert store.verify().findings == []
        assert store.ingest(numbered([closed("later")])).accepted == 1
        assert store.status().last_recorded == settled + 1
        assert store.verify().findings == []


@pytest.mark.parametrize("value", ["'x'", "-1", "1.5", "x'00'"])
def test_a_settled_moment_that_is_none_is_found(sound: Path, tmp_path: Path, value: str) -> None:
    """Verify names it under the file, and whoever needs it is told that the store is damaged."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, f"UPDATE meta SET value = {value}")
    with open_store(path) as store:
        assert proofs(store.verify()) == {"file"}
        if value != "-1":
            with pytest.raises(StoreDamagedError, match="settled"):
                store.ingest(numbered([closed("later")]))


# ---- the layout --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW events",
        "DROP INDEX facts_by_key",
        "UPDATE kinds SET name = 'forged' WHERE kind = 1",
        "DELETE FROM kinds WHERE kind = 7",
        "ALTER TABLE scores ADD COLUMN more TEXT",
    ],
)
def test_a_table_that_is_not_as_it_is_made_is_found(
    sound: Path, tmp_path: Path, change: str
) -> None:
    """A view, an index, a column or a name of kinds that was changed by hand is named."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, change)
    assert proofs(report_on(path)) == {"file"}


@pytest.mark.parametrize("change", ["DROP TABLE traces", "ALTER TABLE ledger RENAME clean TO tidy"])
def test_a_store_without_one_of_its_tables_is_called_damaged(
    sound: Path, tmp_path: Path, change: str
) -> None:
    """What cannot be looked at cannot be proven, and is said with the path and a way out."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path, change)
    with pytest.raises(StoreDamagedError, match=f"{path} is damaged"):
        report_on(path)


def test_triggers_are_not_proven(sound: Path, tmp_path: Path) -> None:
    """They keep accidents from the rows; a file without them that holds the same is sound."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    tamper(path)
    assert report_on(path).findings == []
