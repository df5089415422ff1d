"""Realistic session logs of every supported agent, written live, with exactly known contents."""

from __future__ import annotations

from agenttrace.demo.truth import Totals, Truth
from agenttrace.demo.writer import FORMATS, environment, past, play

__all__ = ["FORMATS", "Totals", "Truth", "environment", "past", "play"]
