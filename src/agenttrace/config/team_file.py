"""``HOME/team.toml``: the destination that ``agenttrace team join`` writes.

The settings file belongs to the user, so the team has a file of its own. A destination of the same name in
``agenttrace.toml`` counts instead of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agenttrace.config.toml_files import table_lines, write_private

#: The name of the destination.
TEAM_DESTINATION = "team"
_HEAD = (
    "# The team that this machine joined; agenttrace team join writes this file, agenttrace team leave removes it.\n"
    "# level: full, masked or figures; project_levels: other levels of projects, by name, path or glob.\n"
)


def team_file(home: Path) -> Path:
    """The file of a data directory."""
    return home / "team.toml"


def write_team(home: Path, table: Mapping[str, Any]) -> None:
    """Write the destination."""
    text = _HEAD + "".join(table_lines("destinations", TEAM_DESTINATION, table))
    write_private(team_file(home), text.encode("utf-8"))
