"""A budget in memory: what is set apart is not there for anybody else."""

from __future__ import annotations


class Purse:
    """So much money, in micro-USD. Not shared between processes; one event loop may share it."""

    def __init__(self, amount: int) -> None:
        self.remaining = amount

    def reserve(self, amount: int) -> bool:
        """Set an amount apart; False if there is not so much."""
        if amount > self.remaining:
            return False
        self.remaining -= amount
        return True

    def settle(self, reserved: int, spent: int) -> None:
        """Give back what was set apart, less what was spent; it may be overdrawn by that."""
        self.remaining += reserved - spent
