"""Record: the session logs that agents write become traces, each event exactly once."""

from __future__ import annotations
