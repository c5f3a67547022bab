"""`trustfold dead-letters`: what was refused; look at it, mend it, take it in after all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_streams.cli.options import (
    Settings,
    json_option,
    moment_text,
    store_option,
)
from trustfold_streams.cli.output import console, plain, print_json, say, short_moment, table
from trustfold_streams.store_port import Store


@click.group("dead-letters", invoke_without_command=True)
@click.option("--check", is_flag=True, help="Exit 1 if there are any.")
@store_option
@json_option
@click.pass_context
def dead_letters(context: click.Context, check: bool, as_json: bool) -> int:
    """What was refused or could not be used, with its reason and its original bytes.

    Without a sub-command, lists them.
    """
    if context.invoked_subcommand is not None:
        if check or as_json:
            name = "--check" if check else "--json"
            raise click.UsageError(f"{name} stands after the sub-command, or with none")
        return 0
    return int(context.invoke(list_letters, check=check, as_json=as_json) or 0)


@dead_letters.command("list")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice([reason.value for reason in Reason]),
    help="Only these reasons.",
)
@click.option("--all", "replayed", is_flag=True, help="Those that were replayed, too.")
@click.option("--check", is_flag=True, help="Exit 1 if there are any.")
@store_option
@json_option
@click.pass_obj
def list_letters(
    settings: Settings,
    reasons: tuple[str, ...] = (),
    replayed: bool = False,
    check: bool = False,
    as_json: bool = False,
) -> int:
    """List dead letters, oldest first; the same bytes for the same reason are one."""
    with settings.open("read") as store:
        letters = store.dead_letters([Reason(name) for name in reasons], replayed=replayed)
    if as_json:
        for letter in letters:
            print_json(_json(letter))
    elif not letters:
        say("no dead letters")
    else:
        title = f"{len(letters):,} dead letters"
        listed = table(
            title, "id", "reason", "times", "last", "origin", "detail", numbers=("id", "times")
        )
        for letter in letters:
            listed.add_row(
                str(letter.dead_letter_id),
                letter.reason.value + (" (replayed)" if letter.replayed else ""),
                f"{letter.times:,}",
                short_moment(letter.last_recorded),
                plain(letter.origin),
                plain(letter.detail),
            )
        console().print(listed)
    return 1 if check and letters else 0


@dead_letters.command("show")
@click.argument("number", metavar="ID", type=int)
@click.option("--body", is_flag=True, help="Only the original bytes, unchanged.")
@store_option
@json_option
@click.pass_obj
def show_letter(settings: Settings, number: int, body: bool, as_json: bool) -> int:
    """Show one dead letter whole; `--body > FILE` saves its bytes to be mended."""
    with settings.open("read") as store:
        letter = _one(store, number)
    if body:
        sys.stdout.buffer.write(letter.body)
    elif as_json:
        print_json(_json(letter))
    else:
        out = console()
        for name, value in (
            ("reason", letter.reason.value),
            ("detail", letter.detail),
            ("origin", letter.origin),
            ("first", short_moment(letter.first_recorded)),
            ("last", short_moment(letter.last_recorded)),
            ("times", str(letter.times)),
            ("role", letter.stamp.role),
            ("replayed", f"{short_moment(letter.replayed)} as {letter.replayed_as}")
            if letter.replayed
            else ("replayed", "no"),
        ):
            out.print(plain(f"{name:<10}{value}"))
        out.print(plain(letter.body.decode(errors="backslashreplace")))
    return 0


@dead_letters.command(
    "replay", epilog="Example: trustfold dead-letters replay 7 --body mended.json"
)
@click.argument("numbers", metavar="ID...", type=int, nargs=-1, required=True)
@click.option(
    "--body",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The repaired document, for one ID; it goes in under a new id that names the letter.",
)
@store_option
@json_option
@click.pass_obj
def replay_letters(
    settings: Settings, numbers: tuple[int, ...], body: Path | None, as_json: bool
) -> int:
    """Take dead letters in again, in the role of their first publisher (or --as ROLE).

    Unchanged bytes go in under their own id, so twice is once. Exit 1 if any is refused again.
    On a broker each goes to the topic it came from, and to that of the role with --as ROLE;
    `accepted` is what the broker has, and what only correlation can refuse becomes a dead letter
    again.
    """
    if body is not None and len(numbers) != 1:
        raise click.UsageError("--body goes with one ID")
    repaired = None if body is None else body.read_bytes().rstrip(b"\r\n")
    refused = 0
    with settings.open("write") as store:
        letters = [_one(store, number) for number in numbers]
        for letter in letters:
            try:
                receipt = store.replay(
                    letter, repaired, None if settings.role is None else settings.stamp
                )
            except ValueError as error:
                raise click.UsageError(str(error)) from None
            refused += receipt.reason is not None
            answer = {
                "id": letter.dead_letter_id,
                "result": receipt.counted,
                "reason": receipt.reason,
                "detail": receipt.detail,
            }
            if as_json:
                print_json(answer)
            else:
                why = "" if receipt.reason is None else f": {receipt.reason}: {receipt.detail}"
                say(f"dead letter {letter.dead_letter_id}: {receipt.counted}{why}")
    return 1 if refused else 0


def _one(store: Store, number: int) -> StoredDeadLetter:
    letters = store.dead_letters(ids=[number])
    if not letters:
        raise click.UsageError(f"there is no dead letter {number}")
    return letters[0]


def _json(letter: StoredDeadLetter) -> dict[str, Any]:
    return {
        "id": letter.dead_letter_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "origin": letter.origin,
        "first_recorded": moment_text(letter.first_recorded),
        "last_recorded": moment_text(letter.last_recorded),
        "times": letter.times,
        "role": letter.stamp.role,
        "identity": letter.stamp.identity,
        "scopes": letter.stamp.scopes,
        "replayed": moment_text(letter.replayed),
        "replayed_as": letter.replayed_as,
        "body": letter.body.decode(errors="backslashreplace"),
    }
