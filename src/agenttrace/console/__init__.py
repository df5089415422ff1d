"""The console: the built page, as files; its source is in ``web/``."""

from __future__ import annotations

from pathlib import Path

#: Where the build puts it; absent in a checkout where it was not built.
PAGE = Path(__file__).with_name("dist")
