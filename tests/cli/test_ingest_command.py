"""`trustfold ingest`: where lines come from, what becomes of each, and what is said of it."""

from __future__ import annotations

import pytest

from tests.cli.commands import Shell, counts
from tests.embedded.documents import (
    DAY,
    NOTES,
    TIME,
    closed,
    decided,
    event,
    recorded_step,
    step,
    undone,
)
from tests.embedded.feeding import query

LINES = [closed("t1"), decided("t1"), closed("t2")]
BAD = b'{"type": '


# ---- where lines come from -------------------------------------------------------------------


def test_a_file_is_counted(shell: Shell) -> None:
    """The counts are a sentence for people and exactly one object for programs."""
    log = shell.file(LINES)
    ended = shell("ingest", log)
    assert ended == (0, "3 accepted, 0 duplicates, 0 conflicts, 0 dead letters\n", "")
    again = shell("ingest", log, "--json")
    assert again.code == 0
    assert again.json == [counts(0, duplicates=3)]
    assert again.out == '{"accepted":0,"duplicates":3,"conflicts":0,"dead_letters":0}\n'


def test_several_files_are_one_ingest(shell: Shell) -> None:
    """Files are taken in the order given and counted together; origins name each."""
    one, two = (
        shell.file([closed("t1"), BAD], "one.jsonl"),
        shell.file([decided("t1")], "two.jsonl"),
    )
    ended = shell("ingest", one, two, "--json")
    assert ended.json == [counts(2, dead_letters=1)]
    assert "one.jsonl:2" in ended.err


def test_standard_input_is_a_file_named_with_a_dash(shell: Shell) -> None:
    """`-` is read like a file, also among files, and its lines have numbers too."""
    log = shell.file([closed("t1")])
    ended = shell("ingest", log, "-", "--json", stdin=closed("t2") + b"\n" + BAD)
    assert ended.json == [counts(2, dead_letters=1)]
    assert ended.err.startswith("standard input:2: malformed: ")


def test_standard_input_cannot_be_read_twice(shell: Shell) -> None:
    """Naming `-` twice is wrong use."""
    assert shell("ingest", "-", "-").code == 2


@pytest.mark.parametrize("missing", ["gone.jsonl", "."])
def test_a_file_that_cannot_be_read_stops_everything_before_it_begins(
    shell: Shell, missing: str
) -> None:
    """Exit 2 with the file's name and the reason; nothing is ingested and no store is made."""
    ended = shell("ingest", shell.file(LINES), missing)
    assert (ended.code, ended.out) == (2, "")
    assert f"{missing} cannot be read: " in ended.err
    assert not shell.store.exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n \t\r\n\n"])
def test_an_empty_file_counts_nothing(shell: Shell, content: bytes) -> None:
    """No lines, or blank ones, are no documents and no error."""
    ended = shell("ingest", shell.file(content), "--json", "--strict")
    assert (ended.code, ended.json) == (0, [counts(0)])


def test_line_ends_of_every_kind(shell: Shell) -> None:
    """CRLF, blank lines between, and a last line without its end change nothing."""
    content = LINES[0] + b"\r\n\r\n\n" + LINES[1] + b"\n   \n" + LINES[2]
    ended = shell("ingest", shell.file(content), "--json")
    assert ended.json == [counts(3)]
    bodies = query(shell.store, "SELECT body FROM facts ORDER BY recorded")
    assert [body.encode() for (body,) in bodies] == LINES


@pytest.mark.parametrize("batch", ["1", "2", "100000"])
def test_the_size_of_batches_changes_nothing(shell: Shell, batch: str) -> None:
    """`--batch` sets how much a transaction holds and nothing else."""
    ended = shell("ingest", shell.file([*LINES, BAD]), "--batch", batch, "--json")
    assert ended.json == [counts(3, dead_letters=1)]


# ---- what is refused -------------------------------------------------------------------------


def test_refused_lines_are_named_by_number_and_reason(shell: Shell) -> None:
    """Standard error says where, why, what it got and what it wanted; the rest goes on."""
    lines = [closed("t1"), BAD, b"", event("trace.closed", "e", {"trace_id": 7}), closed("t2")]
    ended = shell("ingest", shell.file(lines))
    assert ended.code == 0
    assert ended.out == "2 accepted, 0 duplicates, 0 conflicts, 2 dead letters\n"
    first, second = ended.err.splitlines()
    assert first.startswith("log.jsonl:2: malformed: ")
    assert second.startswith("log.jsonl:4: invalid: ")
    assert "$.data.trace_id" in second


def test_many_refused_lines_are_counted_and_not_all_named(shell: Shell) -> None:
    """After ten of them only their number is said."""
    ended = shell("ingest", shell.file([b"x%d" % number for number in range(25)]))
    assert ended.out == "0 accepted, 0 duplicates, 0 conflicts, 25 dead letters\n"
    assert len(ended.err.splitlines()) == 11
    assert ended.err.splitlines()[-1] == "... and 15 more were refused"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (LINES, 0),
        ([*LINES, *LINES], 0),
        ([*LINES, BAD], 1),
        ([*LINES, closed("t2", step(status="error"))], 1),
    ],
    ids=["all well", "duplicates", "a dead letter", "a conflict"],
)
def test_strict_makes_refusals_exit_1(shell: Shell, lines: list[bytes], code: int) -> None:
    """With `--strict` dead letters and conflicts are exit 1; all the rest is ingested anyway."""
    log = shell.file(lines)
    assert shell("ingest", log, "--strict").code == code
    assert shell("ingest", log).code == 0
    assert query(shell.store, "SELECT count(*) FROM facts") == [(3,)]


LIMIT = 2 << 20


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT, 5 * LIMIT + 7])
@pytest.mark.parametrize("last", [False, True])
def test_an_overlong_line_is_a_dead_letter_and_the_next_is_read(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, length: int, last: bool
) -> None:
    """However long a line is, it is one dead letter, kept up to the limit, and one line number."""
    monkeypatch.setattr("trustfold_streams.cli.lines.LINE_BYTES_MAX", LIMIT)
    lines = (
        [closed("t1"), b"x" * length] if last else [closed("t1"), b"x" * length, closed("t2"), BAD]
    )
    content = b"\n".join(lines)
    ended = shell("ingest", shell.file(content), "--json")
    assert ended.json == [counts(1, dead_letters=1) if last else counts(2, dead_letters=2)]
    rows = query(shell.store, "SELECT origin, reason, length(body) FROM dead_letters ORDER BY 1")
    assert rows[0] == ("log.jsonl:2", "too_large", min(length, LIMIT))
    assert [origin for origin, *_ in rows[1:]] == ([] if last else ["log.jsonl:4"])


def test_a_line_over_16_mib(shell: Shell) -> None:
    """The limit as shipped: a line of more than 16 MiB takes no more than that in the store."""
    content = closed("t1") + b"\n" + b"x" * ((16 << 20) + 5) + b"\n" + closed("t2") + b"\n"
    ended = shell("ingest", shell.file(content), "--json")
    assert ended.json == [counts(2, dead_letters=1)]
    rows = query(shell.store, "SELECT reason, length(body) FROM dead_letters")
    assert rows == [("too_large", 16 << 20)]


# ---- roles -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "line", "reason"),
    [
        ("human", closed("t1"), "not_permitted"),
        ("runtime", decided("t1"), "not_human"),
        ("operator", decided("t1"), "not_human"),
        ("runtime", undone("t1"), "not_human"),
    ],
)
def test_a_role_may_say_only_what_is_its_own(
    shell: Shell, role: str, line: bytes, reason: str
) -> None:
    """`--as` speaks in one role, and what that role may not say becomes a dead letter."""
    ended = shell("--as", role, "ingest", shell.file([line]), "--json")
    assert ended.json == [counts(0, dead_letters=1)]
    assert f"log.jsonl:1: {reason}: " in ended.err


def test_a_reader_ingests_nothing(shell: Shell) -> None:
    """The role `reader` may not even write dead letters, and is told so."""
    shell.ingest(closed("t1"))
    ended = shell("--as", "reader", "ingest", shell.file([closed("t2")]))
    assert ended.code == 2
    assert "the role reader writes nothing" in ended.err
    assert query(shell.store, "SELECT count(*) FROM facts") == [(1,)]


def test_what_a_role_said_is_stamped_with_it(shell: Shell) -> None:
    """Facts keep the role of `--as`, and `owner` without it."""
    shell("--as", "runtime", "ingest", shell.file([closed("t1")]))
    shell("--as", "human", "ingest", shell.file([decided("t1")]))
    shell("ingest", shell.file([undone("t1")]))
    rows = query(shell.store, "SELECT role FROM facts ORDER BY recorded")
    assert [role for (role,) in rows] == ["runtime", "human", "owner"]


# ---- medians first ---------------------------------------------------------------------------


def month() -> list[bytes]:
    """Five days of traces that cost something, 25 a day, and a step told of singly."""
    made = [recorded_step("t0", step("z"))]
    for number in range(125):
        time = TIME - 10 * DAY + number // 25 * DAY + number * 1_000_000
        made.append(closed(f"t{number}", step(), time=time, cost_usd=0.01, step_count=1))
    return made


@pytest.mark.parametrize("through", ["file", "stdin"])
def test_medians_are_published_before_the_history_that_they_measure(
    shell: Shell, through: str
) -> None:
    """With `--medians-first` the log begins with medians, and the costs of later days count."""
    content = b"\n".join(month())
    name = "-" if through == "stdin" else shell.file(content)
    ended = shell("ingest", name, "--medians-first", "--json", stdin=content)
    (made,) = ended.json
    medians = made.pop("medians")
    assert made == counts(126)
    assert medians == counts(medians["accepted"])
    assert medians["accepted"] > 0
    types = [kind for (kind,) in query(shell.store, "SELECT type FROM facts ORDER BY recorded")]
    assert types[: medians["accepted"]] == ["cost.median.v1"] * medians["accepted"]
    assert "cost.median.v1" not in types[medians["accepted"] :]
    measured = query(shell.store, "SELECT count(*) FROM ledger WHERE w2 > 0")
    assert measured[0][0] >= 50


def test_medians_of_the_same_history_are_duplicates_the_second_time(shell: Shell) -> None:
    """The same input again publishes the same medians, and nothing is counted twice."""
    log = shell.file(month())
    (first,) = shell("ingest", log, "--medians-first", "--json").json
    (second,) = shell("ingest", log, "--medians-first", "--json").json
    assert second.pop("medians") == counts(0, duplicates=first["medians"]["accepted"])
    assert second == counts(0, duplicates=126)


def test_without_medians_costs_are_no_evidence(shell: Shell) -> None:
    """A cost that nothing measures has no weight."""
    shell("ingest", shell.file(month()))
    assert query(shell.store, "SELECT count(*) FROM ledger WHERE w2 > 0") == [(0,)]
    (line,) = shell("score", NOTES.tool, NOTES.effect, "--json").json
    assert line["cost_efficiency"] == 0.5
