"""Tests a built wheel: installed into an empty environment, it records logs and contains the console."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "tests" / "data" / "claude-code-2.1.197"
#: Files that are not Python and could be missing from the wheel.
PAGE = "agenttrace/console/dist"
NEEDED = (f"{PAGE}/index.html", f"{PAGE}/third-party-notices.txt", "agenttrace/py.typed")


def main(directory: Path) -> None:
    """Check the one wheel in a directory."""
    (wheel,) = directory.glob("*.whl")
    (source,) = directory.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    if missing := [name for name in NEEDED if name not in names]:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as place:
        _try(wheel, Path(place))
    sys.stdout.write(f"{wheel.name} and {source.name} are fine\n")


def _try(wheel: Path, place: Path) -> None:
    venv.create(place / "env", with_pip=True)
    programs = place / "env" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    environment = {**os.environ, "HOME": str(place), "AGENTTRACE_HOME": str(place / "home")}
    environment.pop("PYTHONPATH", None)

    def run(*arguments: str) -> str:
        command = [programs / "agenttrace", *arguments]
        return subprocess.run(command, env=environment, cwd=place, check=True, capture_output=True, text=True).stdout

    version = wheel.name.split("-")[1]
    if run("--version").strip() != f"agenttrace {version}":
        raise SystemExit(f"the wheel of {version} says {run('--version')}")
    recorded = json.loads(run("record", str(LOGS), "--once", "--json"))["recorded"]
    if not recorded or not json.loads(run("sessions", "--json")):
        raise SystemExit("the installed program has recorded nothing")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
