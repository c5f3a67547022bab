"""An archive that is sound by its chain and still wrong: the ledger not derived from the facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.archive.logs import MemoryLog, held
from trustfold_projections.analysis import as_of
from trustfold_projections.analysis import verify as proofs
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.rows import EntryRow, Row
from trustfold_projections.archive.schema import Place
from trustfold_projections.archive.writer import ArchiveWriter
from trustfold_schemas.facts import Fact
from trustfold_schemas.findings import Finding
from trustfold_schemas.scores import State
from trustfold_streams.archiver.store import verify_archive

Rows = dict[Place, list[Row]]


def forged(scene: Path, folder: Path, change: Callable[[Rows], None]) -> list[Finding]:
    """What verify finds in an archive of the scene's rows, changed before they were archived."""
    rows: Rows = {Place(topic, 0): some for topic, some in held(scene).items()}
    change(rows)
    ArchiveWriter(folder).archive(MemoryLog(rows, manifests.load(scene).settled))
    return verify_archive(folder).findings


def entries(rows: Rows) -> list[Row]:
    """The ledger."""
    return rows[Place("ledger", 0)]


def changed_amount(rows: Rows) -> None:
    """One amount of one entry a millionth less."""
    at = next(i for i, row in enumerate(entries(rows)) if _entry(row).entry.amounts[0] > 0)
    row = _entry(entries(rows)[at])
    a, *rest = row.entry.amounts
    entry = replace(row.entry, amounts=(a - 1, *rest))
    entries(rows)[at] = replace(row, entry=entry)


def missing_entry(rows: Rows) -> None:
    """One entry less."""
    del entries(rows)[5]


def doubled_entry(rows: Rows) -> None:
    """One entry twice, as if it had been emitted again."""
    last = _entry(entries(rows)[-1])
    entries(rows).append(replace(last, offset=last.offset + 1))


def missing_fact(rows: Rows) -> None:
    """One close less, whose entries stay."""
    del rows[Place("facts", 0)][3]


def changed_fact(rows: Rows) -> None:
    """One fact recorded by somebody who may not say it."""
    facts = rows[Place("facts", 0)]
    at = next(i for i, row in enumerate(facts) if b'"granted"' in _fact(row).document)
    facts[at] = replace(_fact(facts[at]), stamp=replace(_fact(facts[at]).stamp, scopes=("other",)))


def missing_median(rows: Rows) -> None:
    """The median by which cost was measured."""
    rows[Place("cost-median", 0)].clear()


def _entry(row: Row) -> EntryRow:
    assert isinstance(row, EntryRow)
    return row


def _fact(row: Row) -> Fact:
    assert isinstance(row, Fact)
    return row


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (changed_amount, "amounts is ("),
        (missing_entry, "the ledger lacks it"),
        (doubled_entry, "no fact derives it"),
        (missing_fact, "no fact derives it"),
        (changed_fact, "no fact derives it"),
        (missing_median, "median_usd is"),
    ],
)
def test_a_ledger_that_the_facts_do_not_derive_is_named(
    scene_archive: Path, tmp_path: Path, change: Callable[[Rows], None], expected: str
) -> None:
    """Every byte is as its line says, and the second proof still finds it."""
    findings = forged(scene_archive, tmp_path, change)
    assert {finding.proof for finding in findings} == {"ledger"}
    assert any(expected in finding.difference for finding in findings), findings


def test_the_scene_itself_is_proven(scene_archive: Path, tmp_path: Path) -> None:
    """Its archive, and another of the same rows."""
    assert not verify_archive(scene_archive).findings
    assert not forged(scene_archive, tmp_path, lambda _: None)


def test_sums_that_are_not_the_fold_are_named(
    scene_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third proof: an engine that sums wrong, leaves a subject out, or makes one up."""
    made = as_of.states_as_of

    def wrong(*arguments: object) -> list[State]:
        states = made(*arguments)  # type: ignore[arg-type]
        states[0].num[0] += 1
        states[1].version += 1
        states[2].subject = states[2].subject._replace(tool="made up")
        return states

    monkeypatch.setattr(proofs, "states_as_of", wrong)
    findings = verify_archive(scene_archive).findings
    assert {finding.proof for finding in findings} == {"table"}
    said = " ".join(finding.difference for finding in findings)
    for expected in (
        "the ledger folds to",
        "version and rollbacks are",
        "the sums lack it",
        "has no entry of it",
    ):
        assert expected in said, expected
