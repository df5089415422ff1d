"""Conversations and chat turns."""

from __future__ import annotations
