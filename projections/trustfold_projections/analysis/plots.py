"""Plots of results, drawn by matplotlib into a file; nothing is shown on a screen."""

# matplotlib types every call with **kwargs of no type.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trustfold_projections.analysis.backtest.tally import Tally
from trustfold_schemas.errors import CallerError

_MARKERS = "osD^vPX*<>"
"""One shape a policy, since two may stand at one place."""


class PlotsExtraError(CallerError):
    """What draws is not installed."""


class PlotError(CallerError):
    """A plot cannot be drawn into the file that was asked for."""


def require_plots() -> None:
    """Raise PlotsExtraError, which says how to install it, where the extra is missing."""
    if find_spec("matplotlib") is None:
        raise PlotsExtraError(
            "plots need an extra that is not installed: pip install 'trustfold[plots]'"
        )


def plot_backtest(tallies: Sequence[Tally], path: Path) -> None:
    """Draw what each policy allows against what went wrong of that; the ending says the format.

    To the right is more autonomy, upwards more harm: a policy is better to the lower right.
    Raises PlotError for an ending that names no format, and where it cannot be written.
    """
    require_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for tally in tallies:
        if tally.scope is not None:
            continue
        share = 100 * tally.allowed / tally.actions if tally.actions else 0.0
        harm = 1000 * tally.preventable / tally.allowed if tally.allowed else 0.0
        marker = _MARKERS[len(axes.collections) % len(_MARKERS)]
        axes.scatter([share], [harm], s=70, alpha=0.7, marker=marker, label=tally.policy)
    axes.set_xlabel("past actions allowed without a question, %")
    axes.set_ylabel("of these denied, undone or violating, per thousand")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    axes.grid(visible=True, alpha=0.3)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PlotError(f"{path} cannot be drawn: {error}") from None
