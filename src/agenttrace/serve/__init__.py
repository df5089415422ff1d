"""HTTP: the API and the page of the console, triggers, chat, spans of other programs, health and metrics."""

from __future__ import annotations
