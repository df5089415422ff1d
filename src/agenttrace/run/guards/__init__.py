"""What stands between a caller and an application: breaker, rate limits, token budget, and the one admission."""

from __future__ import annotations
