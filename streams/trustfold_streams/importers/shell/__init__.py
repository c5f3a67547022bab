"""Shell lines: a real grammar reads them, tables class the programs they run."""

from __future__ import annotations

from trustfold_streams.importers.shell.line import class_of_call, class_of_line

__all__ = ["class_of_call", "class_of_line"]
