"""The public library: what ``import agenttrace`` offers to programs and notebooks."""

from __future__ import annotations
