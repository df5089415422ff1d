"""Benchmarks of AgentTrace, compared with peers and with the limits of the machine."""

from __future__ import annotations
