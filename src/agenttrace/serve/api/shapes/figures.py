"""Tokens and cost."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape


class Bill(Shape):
    """Tokens and cost of something, each response counted once."""

    #: Neither read from nor written to a cache.
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    #: Part of ``output_tokens``.
    reasoning_tokens: int
    requests: int
    #: The amount, where there is one currency; null where there is none or several.
    cost: float | None
    #: ``USD``, ``CNY``, … or ``mixed``; null where nothing has a price.
    currency: str | None
    costs: dict[str, float]
    #: Tokens of models without a known price: their cost is unknown, not zero.
    unpriced_tokens: int
    unpriced_models: list[str]
    #: Responses whose log has only a placeholder for their usage.
    estimated_requests: int
    #: Copies of responses, which are counted once.
    folded_copies: int


class NamedBill(Shape):
    """The bill of one model, agent, project or day."""

    name: str
    bill: Bill
