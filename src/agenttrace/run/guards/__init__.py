"""The guards of every call: breaker, rate limits, token budget, and the admission that checks all three."""

from __future__ import annotations
