"""The front page, the global options, and what an error becomes: a sentence and an exit code."""

from __future__ import annotations

import io
import logging
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import cast

import click

from trustfold_schemas.errors import CallerError, TrustfoldError
from trustfold_streams.cli.archive import archive
from trustfold_streams.cli.backtest import backtest
from trustfold_streams.cli.dead_letters import dead_letters
from trustfold_streams.cli.decide import decide
from trustfold_streams.cli.effect import effect
from trustfold_streams.cli.explain import explain
from trustfold_streams.cli.export import export
from trustfold_streams.cli.impact import impact
from trustfold_streams.cli.ingest import ingest
from trustfold_streams.cli.medians import medians
from trustfold_streams.cli.mode import mode
from trustfold_streams.cli.options import CONFIG_HELP, ROLES, STORE_HELP, Settings
from trustfold_streams.cli.output import complain, escaped
from trustfold_streams.cli.peek import peek
from trustfold_streams.cli.pending import pending, sweep
from trustfold_streams.cli.reflect import reflect
from trustfold_streams.cli.revoke import reinstate, revoke
from trustfold_streams.cli.reward import reward
from trustfold_streams.cli.scores import score, scores
from trustfold_streams.cli.self_play import self_play
from trustfold_streams.cli.sql import sql
from trustfold_streams.cli.status import status
from trustfold_streams.cli.synapse import synapse
from trustfold_streams.cli.take_back import exclude, include, lift, rollback
from trustfold_streams.cli.threshold import threshold
from trustfold_streams.cli.topics import topics
from trustfold_streams.cli.verify import verify
from trustfold_streams.cli.whatif import whatif
from trustfold_streams.cli.why import why
from trustfold_streams.cli.worker import worker

EXIT_FOUND = 1
EXIT_WRONG_USE = 2
EXIT_STORE_FAILED = 3
EXIT_INTERRUPTED = 130

OF_DUCKDB = "Query interrupted"
"""The RuntimeError that DuckDB makes of a Ctrl-C while it computes."""

FRONT_PAGE = """\
trustfold: has this tool earned the right to act without asking?

  trustfold ingest FILE...        take events in (JSON Lines; `-` is standard input)
  trustfold scores                the leaderboard of all subjects
  trustfold score TOOL EFFECT     one subject's score and what it is made of
  trustfold explain TOOL EFFECT   why it is so: terms, and what each entry moved
  trustfold verify                prove that the table follows from the ledger and the facts

Everything is kept in one file, trust.db, or where --store says: FILE, kafka://HOST:PORT,
or archive:DIR to read.
`trustfold --help` lists all commands; `trustfold COMMAND --help` says more of each.
"""


class InOrder(click.Group):
    """Lists commands in the order in which a person meets them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of the commands."""
        return list(self.commands)


@click.group(
    cls=InOrder,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--store", metavar="STORE", help=STORE_HELP)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=CONFIG_HELP,
)
@click.option(
    "--as",
    "role",
    type=ROLES,
    help="Speak in one role only, instead of as the owner (also after the command).",
)
@click.version_option(metadata.version("trustfold"), prog_name="trustfold")
@click.pass_context
def cli(context: click.Context, store: str | None, config: Path | None, role: str | None) -> None:
    """A trust ledger for tool-using agents.

    Exit codes: 0 fine, 1 found what it looks for, 2 wrong use, 3 the store or the broker
    failed, 70 a worker that must be restarted.
    """
    context.obj = Settings(store, role, config)
    if context.invoked_subcommand is None:
        click.echo(FRONT_PAGE, nl=False)


for command in (
    ingest,
    scores,
    score,
    explain,
    verify,
    rollback,
    lift,
    exclude,
    include,
    dead_letters,
    pending,
    sweep,
    status,
    threshold,
    effect,
    revoke,
    reinstate,
    mode,
    decide,
    peek,
    why,
    impact,
    topics,
    worker,
    archive,
    sql,
    backtest,
    whatif,
    medians,
    export,
    self_play,
    synapse,
    reward,
    reflect,
):
    cli.add_command(command)


class _Escaping(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the port
        return escaped(super().formatMessage(record))


def main() -> None:
    """Run the command line and end the process with its exit code."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("trustfold: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # A name that the terminal's encoding does not have is shown by its numbers, as on stderr.
    cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        # Not cli.main: it takes a broken pipe for a failure before we can say that it is none.
        with cli.make_context("trustfold", list(arguments)) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_WRONG_USE
    except CallerError as error:
        complain(error)
        return EXIT_WRONG_USE
    except TrustfoldError as error:
        complain(error)
        return EXIT_STORE_FAILED
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except RuntimeError as error:
        if str(error) == OF_DUCKDB:
            return _interrupted()
        raise
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    complain("interrupted; what was committed is kept")
    return EXIT_INTERRUPTED
