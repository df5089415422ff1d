"""The prices of this machine, ready to be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.prices.costing import Cashier


def cashier(settings: Settings) -> Cashier:
    """The prices of this machine, ready to be applied."""
    from agenttrace.prices.costing import Cashier
    from agenttrace.prices.table import PriceTable

    return Cashier(PriceTable.load(settings), settings.usage)
