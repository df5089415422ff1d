"""Realistic session logs of six agents, written live or as history."""

from __future__ import annotations

from agenttrace.demo.writer import FORMATS, environment, past, play

__all__ = ["FORMATS", "environment", "past", "play"]
