"""The HTTP side of the run half: triggers, chat, health and metrics."""

from __future__ import annotations
