"""The declarations that ship with the product, as data of events of the topic `policy`."""

from __future__ import annotations

from collections.abc import Iterator

from trustfold_schemas.policy_events import EffectDeclared
from trustfold_streams.importers.table_rows import classes


def shipped_declarations(by: str) -> Iterator[EffectDeclared]:
    """What `tables/classes.toml` declares, in its order; classes of unknown reversibility not."""
    table = classes()
    for row in (*table.shell, *table.effect):
        if row.reversibility != "unknown":
            yield EffectDeclared(row.effect, row.reversibility, by, row.why)
