"""Realistic session logs of every supported agent, written live, with exactly known contents."""

from __future__ import annotations

from agenttrace.demo.writer import FORMATS, DemoTotals, Truth, environment, past, play

__all__ = ["FORMATS", "DemoTotals", "Truth", "environment", "past", "play"]
