"""Cost as commands show it: one amount, several currencies, or what has no price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill


def cost_text(bill: Bill) -> str:
    """``$1.23``, ``$1.23 + ¥4.00``; with a ``+?`` where part has no price, ``?`` where nothing has one."""
    amounts = " + ".join(figures.money(micros, currency) for currency, micros in bill.costs.items())
    if not amounts:
        return "?" if bill.unpriced_tokens else "–"
    return f"{amounts} +?" if bill.unpriced_tokens else amounts


def per_commit_text(costs: dict[str, float]) -> str | None:
    """The cost of a commit; ``None`` without commits, and where nothing has a price."""
    return " + ".join(figures.money(round(cost * 1e6), currency) for currency, cost in costs.items()) or None


def remarks(bill: Bill) -> list[str]:
    """Remarks on unpriced tokens, placeholders and copies."""
    found = []
    if bill.unpriced_tokens:
        models = ", ".join(sorted(bill.unpriced_models)[:5])
        more = len(bill.unpriced_models) - 5
        found.append(
            f"{figures.tokens(bill.unpriced_tokens)} tokens have no known price ({models}"
            f"{f' and {more} more' if more > 0 else ''}); set one in agenttrace.toml under [prices]."
        )
    if bill.estimated:
        found.append(
            f"{figures.counted(bill.estimated, 'response')} estimated: "
            "the log has only a placeholder or a rounded figure."
        )
    if bill.copies:
        found.append(f"{figures.counted(bill.copies, 'repeated mention')} of a response folded into one count each.")
    return found
