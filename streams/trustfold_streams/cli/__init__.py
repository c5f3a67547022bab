"""The command line (SPEC 13): one module per noun, and here what holds them together."""

from __future__ import annotations

from trustfold_streams.cli.front import main

__all__ = ["main"]
