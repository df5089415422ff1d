"""The tables of docs/configuration.md, from the descriptions of the settings: ``make docs-tables`` writes them.

A table stands between ``<!-- settings: SECTION ... -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from agenttrace.config.settings import SETTINGS, Setting

_TABLE = re.compile(r"(<!-- settings: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADER = "| setting | default | variable | meaning |\n|---|---|---|---|\n"


def updated(page: str) -> str:
    """The page with its tables brought up to date."""
    return _TABLE.sub(lambda match: f"{match[1]}{_HEADER}{_rows(match[2].split())}{match[3]}", page)


def _rows(sections: list[str]) -> str:
    return "".join(_row(each) for section in sections for each in SETTINGS.values() if _section(each) == section)


def _section(setting: Setting) -> str:
    return setting.name.partition(".")[0]


def _row(setting: Setting) -> str:
    meaning = f"{setting.markdown} Example: `{setting.example}`"
    return f"| `{setting.name}` | {_default(setting.default)} | `{setting.variable}` | {meaning} |\n"


def _default(value: object) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
