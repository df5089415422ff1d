"""AgentTrace: what AI agents did, and what it cost."""

from __future__ import annotations
