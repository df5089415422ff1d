"""What calls leave behind: run log, cached results, clues, trace."""

from __future__ import annotations
