"""Usage as a table for spreadsheets (RFC 4180), in which no text can become a formula."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator

from agenttrace.serve.api.shapes import Bill, NamedBill, UsageAnswer, UsageGroup

#: With one of these a spreadsheet takes a text for a formula; tab and return it would leave out first.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "requests",
    "unpriced_tokens",
    "estimated_requests",
    "folded_copies",
)


def usage_table(usage: UsageAnswer) -> tuple[bytes, str]:
    """The table, and a tag that names its content."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    # A column for each currency: amounts in different ones cannot stand in one and be added.
    currencies = sorted(usage.total.costs)
    writer.writerow(
        [*_names(usage), *_NUMBERS, *(f"cost_{currency.lower()}" for currency in currencies), "unpriced_models"]
    )
    for labels, bill in _lines(usage):
        writer.writerow([*map(defused, labels), *_cells(bill, currencies)])
    body = stream.getvalue().encode()
    return body, hashlib.blake2b(body, digest_size=9).hexdigest()


def defused(text: str) -> str:
    """The text, with a mark before it that makes it text for a spreadsheet, too."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _names(usage: UsageAnswer) -> list[str]:
    title = ["title"] if usage.by == "session" else []
    # Where groups are what they are split by, two columns need two names.
    split = [] if usage.split is None else [usage.split if usage.split != usage.by else f"{usage.split}_part"]
    return [usage.by, *title, *split]


def _lines(usage: UsageAnswer) -> Iterator[tuple[list[str], Bill]]:
    for row in usage.rows:
        labels = [row.group or "", *([row.title or ""] if usage.by == "session" else [])]
        for part in _parts(usage, row):
            yield labels + ([] if usage.split is None else [part.name]), part.bill


def _parts(usage: UsageAnswer, row: UsageGroup) -> list[NamedBill]:
    return [NamedBill("", row.bill)] if usage.split is None else row.parts


def _cells(bill: Bill, currencies: list[str]) -> list[object]:
    amounts = [_amount(bill.costs.get(currency)) for currency in currencies]
    return [*(getattr(bill, name) for name in _NUMBERS), *amounts, defused(" ".join(bill.unpriced_models))]


def _amount(cost: float | None) -> str:
    # What has no price has an empty cell; and never an exponent, which not everything that reads tables knows.
    return "" if cost is None else f"{cost:.6f}"
