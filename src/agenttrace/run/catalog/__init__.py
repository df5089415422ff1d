"""Applications, events and chains: the catalog and its texts."""

from __future__ import annotations
