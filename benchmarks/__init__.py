"""Measurements of AgentTrace beside peers and beside the machine's limit."""

from __future__ import annotations
