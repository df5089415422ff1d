"""Guarded LLM applications: call them, chain them, chat with them, and keep the account."""

from __future__ import annotations
