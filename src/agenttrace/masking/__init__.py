"""Hides secrets in what may leave the machine; ``docs/masking.md`` says which, and which it cannot find."""

from __future__ import annotations

from agenttrace.masking.mask import Mask

__all__ = ["Mask"]
