"""Classes of the specification for other programs, each on a database of its own; the recorder does not use them."""

from __future__ import annotations
