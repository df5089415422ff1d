"""Which bytes of which log files are new."""

from __future__ import annotations
