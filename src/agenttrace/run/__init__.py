"""Guarded LLM applications: call them, chain them, chat with them, and count their tokens."""

from __future__ import annotations
