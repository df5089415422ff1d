"""Classes of the specification for other programs, each with its own database; AgentTrace itself does not use them."""

from __future__ import annotations
