"""Calls to model providers: one HTTP client with retries and streams, and a wire format for each provider."""

from __future__ import annotations
