"""The command line (SPEC 13): one module per noun, and here what holds them together."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end the process with its exit code."""
    try:
        from trustfold_streams.cli import front
    except KeyboardInterrupt:  # before there was anything to interrupt
        sys.exit(130)
    front.main()


__all__ = ["main"]
