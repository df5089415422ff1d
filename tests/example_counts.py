"""How often hypothesis tries a property whose every example records into a store, or calls a database many times."""

from __future__ import annotations

from hypothesis import settings

#: A share of what the profile says (see ``conftest.py``): 24 in CI, 400 in a thorough run.
COSTLY = settings(max_examples=max(20, settings().max_examples * 2 // 5))
