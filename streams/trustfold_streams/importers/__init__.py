"""What the logs of common agents are made into: effect classes of their actions, and events.

`effect_class_of` says what an action does, in classes coarse enough to earn samples; the shipped
declarations say how far each class can be taken back. The tables are TOML files in `tables/`.
"""

from __future__ import annotations

from trustfold_streams.importers.declarations import shipped_declarations
from trustfold_streams.importers.effects import effect_class_of
from trustfold_streams.importers.places import Places

__all__ = ["Places", "effect_class_of", "shipped_declarations"]
