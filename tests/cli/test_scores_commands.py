"""`trustfold scores` and `score`: the board, one subject, and moments to read them at."""

from __future__ import annotations

import pytest

from tests.cli.commands import Shell
from tests.embedded.documents import NOTES, SHELL, TIME, closed, decided, step, synthesized
from tests.embedded.feeding import query
from tests.embedded.tampering import tamper
from tests.oracles.histories import rfc3339
from trustfold_schemas.subject import Subject

ODD = Subject("", "\x1b]0;owned\x07\x1b[2Jrm", "\x9b31mrun\u202e\r\n[bold]x[/bold]\x00")
"""Would set a terminal's title, clear it, change its colour and turn its text around."""


def is_harmless(text: str) -> bool:
    """Whether a terminal shows all of it as it is."""
    return all(character.isprintable() or character == "\n" for character in text)


# ---- the board -------------------------------------------------------------------------------


def test_the_board_shows_subjects_by_score_and_whole_traces_apart(shell: Shell) -> None:
    """Best first, with their samples; outcomes of whole traces stand in a table of their own."""
    shell.ingest(closed("t1", step("a"), step("b", SHELL, "error")), closed("t2"))
    out = shell("scores").out
    assert (
        out.index("fs_write") < out.index("shell") < out.index("whole traces") < out.index("done")
    )
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert " 2 " in lines["fs_write"]
    assert " 1 " in lines["shell"]


def test_instants_stay_whole_beside_long_names(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are broken where a line is too short, and no moment is."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    long = Subject(
        "a-scope-of-its-own-with-a-name",
        "a-tool-with-its-own-long-name",
        "mcp_read:a-server-and-its-folder",
    )
    shell.ingest(closed("t1", step("a", long), scope=long.scope), decided("t1", "denied"))
    out = shell("scores").out
    row = next(line for line in out.splitlines() if line.startswith("a-sc"))
    assert row.count(rfc3339(TIME)[:19] + "Z") == 2


def test_an_empty_store_has_an_empty_board(shell: Shell) -> None:
    """Nothing known yet is said in words, and is no line of JSON."""
    shell.ingest()
    assert "no subject yet" in shell("scores").out
    assert shell("scores", "--json").out == ""


def test_the_board_is_bounded_and_says_how_many_are_left_out(shell: Shell) -> None:
    """`--top` shows so many; the JSON has all of them."""
    steps = [step(f"s{n}", Subject("", f"tool{n:02d}", "invoke")) for n in range(40)]
    shell.ingest(closed("t1", *steps))
    assert "... and 15 more" in shell("scores").out
    out = shell("scores", "--top", "100").out
    assert all(f"tool{number:02d}" in out for number in range(40))
    assert len(shell("scores", "--json").json) == 41


def test_json_has_a_line_for_every_subject(shell: Shell) -> None:
    """Global subjects, scoped ones and those without samples too, each with all it rests on."""
    shell.ingest(
        closed("t1"), closed("t2", scope="team"), decided("t9", "denied", subjects=[SHELL])
    )
    lines = {tuple(line["subject"]): line for line in shell("scores", "--json").json}
    assert set(lines) == {
        ("", "fs_write", "fs_write:~/notes/*"),
        ("", "runtime", "done"),
        ("", "shell", "invoke"),
        ("team", "fs_write", "fs_write:~/notes/*"),
        ("team", "runtime", "done"),
    }
    notes = lines["", "fs_write", "fs_write:~/notes/*"]
    assert notes["n_samples"] == 1
    assert notes["tool_success"] == 1.0
    assert notes["last_updated"] == rfc3339(TIME)
    assert len(notes["digest"]) == 64
    assert notes["formula"] == "ewm/1"
    assert lines["", "shell", "invoke"]["n_samples"] == 0
    assert lines["", "shell", "invoke"]["last_bad_at"] == rfc3339(TIME)


# ---- one subject -----------------------------------------------------------------------------


def test_one_score_is_taken_apart(shell: Shell) -> None:
    """The five values, their weights, what they come to, and the digest of the state."""
    shell.ingest(closed("t1"), decided("t1"))
    ended = shell("score", NOTES.tool, NOTES.effect)
    assert ended.code == 0
    (line,) = shell("score", NOTES.tool, NOTES.effect, "--json").json
    for name in ("tool_success", "human_approval_rate", "cost_efficiency", "constitution_clean"):
        assert name in ended.out
    assert line["digest"] in ended.out
    assert f"{line['raw_score']:.6f}" in ended.out


def test_a_subject_with_a_scope(shell: Shell) -> None:
    """`--scope` tells subjects of one name apart."""
    shell.ingest(closed("t1", scope="team"), closed("t2", scope="team"), closed("t3"))
    scoped = shell("score", NOTES.tool, NOTES.effect, "--scope", "team", "--json")
    assert scoped.json[0]["n_samples"] == 2
    assert shell("score", NOTES.tool, NOTES.effect, "--json").json[0]["n_samples"] == 1


@pytest.mark.parametrize("options", [[], ["--json"], ["--as-of", "2024-01-01"]])
def test_an_unknown_subject_is_exit_1(shell: Shell, options: list[str]) -> None:
    """Of what nothing was recorded nothing is printed; the message repeats the name."""
    shell.ingest(closed("t1"))
    ended = shell("score", "nobody", "invoke", *options)
    assert (ended.code, ended.out) == (1, "")
    assert "nobody" in ended.err


@pytest.mark.parametrize("name", ["", "x" * 257])
def test_what_can_be_no_subject_is_exit_2(shell: Shell, name: str) -> None:
    """An empty or over-long name is wrong use."""
    shell.ingest(closed("t1"))
    assert shell("score", name, "invoke").code == 2


# ---- moments ---------------------------------------------------------------------------------


def test_at_reads_the_score_at_a_moment(shell: Shell) -> None:
    """A day means its first moment in UTC; thirty days halve the score and nothing else."""
    shell.ingest(closed("t1"))
    read = [
        shell("score", NOTES.tool, NOTES.effect, "--json", "--at", at).json[0]
        for at in ("2027-01-01", "2027-01-01T01:00:00+01:00", "2027-01-31T00:00:00Z")
    ]
    assert read[0] == read[1]
    assert read[0]["at"] == "2027-01-01T00:00:00.000000Z"
    assert read[2]["score"] == pytest.approx(read[0]["score"] / 2)
    assert read[2]["raw_score"] == read[0]["raw_score"]
    assert shell("scores", "--at", "2027-01-01").code == 0


def test_as_of_counts_what_was_recorded_by_then(shell: Shell) -> None:
    """The table of an earlier moment, to the microsecond, also through a zone."""
    shell.ingest(closed("t1"))
    ((moment,),) = query(shell.store, "SELECT recorded FROM facts")
    shell.ingest(closed("t2"))
    for at, samples in ((rfc3339(moment), 1), (rfc3339(moment, "offset"), 1)):
        (line,) = shell("score", NOTES.tool, NOTES.effect, "--json", "--as-of", at).json
        assert (line["n_samples"], line["as_of"], line["at"]) == (
            samples,
            rfc3339(moment),
            rfc3339(moment),
        )
    assert shell("scores", "--json", "--as-of", rfc3339(moment - 1)).json == []
    assert "as of" in shell("scores", "--as-of", rfc3339(moment)).out
    assert shell("scores", "--as-of", "2024-01-01").code == 0


@pytest.mark.parametrize("option", ["--as-of", "--at"])
@pytest.mark.parametrize("bad", ["yesterday", "2026-13-01", "2026-01-01T00:00:00", "1767225600"])
def test_a_bad_moment_is_exit_2_and_says_what_was_wanted(
    shell: Shell, option: str, bad: str
) -> None:
    """Moments without a zone and other spellings are refused with what they should be."""
    shell.ingest(closed("t1"))
    ended = shell("scores", option, bad)
    assert (ended.code, ended.out) == (2, "")
    assert bad in ended.err
    assert "Expected" in ended.err
    assert "2026-04-22" in ended.err


def test_as_of_the_future_is_exit_2(shell: Shell) -> None:
    """What has not come is not known, whatever clock one hopes for."""
    shell.ingest(closed("t1"))
    ended = shell("scores", "--as-of", "2199-01-01")
    assert (ended.code, ended.out) == (2, "")
    assert "has not come" in ended.err


# ---- other people's names --------------------------------------------------------------------


def test_control_characters_of_a_name_do_not_reach_the_terminal(shell: Shell) -> None:
    """Boards, scores and messages show them spelled out."""
    shell.ingest(closed("t1", step("a", ODD)))
    for arguments in (
        ("scores",),
        ("scores", "--top", "1"),
        ("scores", "--as-of", rfc3339(TIME)),
        ("status",),
        ("verify",),
    ):
        ended = shell(*arguments)
        assert is_harmless(ended.out + ended.err), arguments
    tool = ODD.tool.replace("\x00", "")
    shell.ingest(closed("t2", step("a", Subject("", tool, "x"))))
    assert is_harmless(shell("score", tool, "x").out)
    ended = shell("score", tool, "unknown")
    assert ended.code == 1
    assert is_harmless(ended.err)


def test_control_characters_of_refused_events_do_not_reach_the_terminal(shell: Shell) -> None:
    """A stranger's ids and names in the reasons of dead letters are spelled out too."""
    name = ODD.tool + ODD.effect
    lines = [
        closed(name),
        closed(name, step(status="error")),
        synthesized(name),
        synthesized(name, event_id="another"),
        decided(name, step_ids=[name]),
        closed("t2", step(name), scope=name),
        closed("t3", step("a"), outcome=7, scope=name),
    ]
    ended = shell("ingest", shell.file(lines))
    assert ended.out == "3 accepted, 0 duplicates, 1 conflicts, 3 dead letters\n"
    assert len(ended.err.splitlines()) == 4
    assert is_harmless(ended.err)


def test_control_characters_in_findings_do_not_reach_the_terminal(shell: Shell) -> None:
    """Verify names damaged records of any subject and trace without obeying their names."""
    name = ODD.tool + ODD.effect
    shell.ingest(closed(name, step("a", ODD)))
    tamper(
        shell.store,
        "UPDATE traces SET facts = 9",
        "UPDATE ledger SET a0 = 7",
        "UPDATE scores SET digest = zeroblob(32) WHERE subject_id = 2",
    )
    ended = shell("verify")
    assert ended.code == 1
    assert is_harmless(ended.out + ended.err)
    ended = shell("scores")
    assert ended.code == 3
    assert is_harmless(ended.out + ended.err)


def test_markup_in_a_name_is_text(shell: Shell) -> None:
    """Square brackets are part of a name and format nothing."""
    shell.ingest(closed("t1", step("a", Subject("", "[bold]tool[/bold]", "[red]x"))))
    assert "[bold]tool[/bold]" in shell("scores").out
    assert "[red]x" in shell("scores").out


def test_whatif_shows_whole_traces_apart(shell: Shell) -> None:
    """As on the leaderboard: what counts whole traces is no rival of tools."""
    shell.ingest(closed("t1"))
    subjects, whole = shell("whatif").out.split("whole traces, by outcome")
    assert "fs_write" in subjects
    assert "runtime" not in subjects
    assert "runtime" in whole
