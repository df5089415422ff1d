"""The rig of the run half's fault tests: real processes, a real PostgreSQL, and the simulator upstream."""

from __future__ import annotations
