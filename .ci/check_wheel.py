"""Tests a built wheel: installed into an empty environment, it records logs, serves the console and shows the view.

Where uv or pipx is on PATH, the wheel is also run with it as a new user does: without installation, in an empty home.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "tests" / "data" / "claude-code-2.1.197"
#: Files that are not Python and could be missing from the wheel.
PAGE = "agenttrace/console/dist"
#: What runs a wheel without installing it.
RUNNERS = {"uvx": ("--from",), "pipx": ("run", "--spec")}
PATIENCE_S = 120.0
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
        for name, options in RUNNERS.items():
            _run_once(name, options, wheel.resolve(), Path(place) / name)
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
    _serves([str(programs / "agenttrace")], environment)
    if os.name != "nt":
        _shows([str(programs / "agenttrace")], {**environment, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"})


def _run_once(name: str, options: tuple[str, ...], wheel: Path, home: Path) -> None:
    """The first minute of a user who has logs and no installation."""
    runner = shutil.which(name)
    if runner is None:
        sys.stdout.write(f"{name} is not on PATH: running the wheel with it is not checked\n")
        return
    shutil.copytree(LOGS, home / ".claude")
    # Packages may stay where they were downloaded before; all else is in the new home.
    caches = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(home / "cache")}
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTRACE_", "PYTHON", "XDG_"))}
    environment = {**outside, **caches, "HOME": str(home)}
    environment.pop("VIRTUAL_ENV", None)
    _serves([runner, *options, str(wheel), "agenttrace"], environment)
    sys.stdout.write(f"{name} runs {wheel.name}\n")


def _serves(program: list[str], environment: dict[str, str]) -> None:
    """``up`` finds the logs, serves the page of the console, and shows the sessions."""
    command = [*program, "up", "--json", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "url" in (told := json.loads(line)):
                    break
            else:
                raise SystemExit(f"{' '.join(command)} has ended")
            found = [*program, "open", "--json"]
            link = json.loads(subprocess.run(found, env=environment, check=True, capture_output=True).stdout)["link"]
            # The link gives a cookie and leads to the page.
            browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
            browser.addheaders = [("Accept", "text/html")]
            page = browser.open(link, timeout=30).read()
            until = time.monotonic() + PATIENCE_S
            while not json.loads(browser.open(f"{told['url']}/api/v1/sessions", timeout=30).read())["items"]:
                if time.monotonic() > until:
                    raise SystemExit("the program shows no session")
                time.sleep(0.2)
        finally:
            process.terminate()
    if b"<script" not in page:
        raise SystemExit("the program serves no page")


def _shows(command: list[str], environment: dict[str, str]) -> None:
    """Without a command the view opens at a terminal, and ``q`` ends it."""
    import pty

    process, terminal = pty.fork()
    if process == 0:
        os.execve(command[0], command, environment)  # noqa: S606 - no shell is needed
    seen = b""
    while data := _read(terminal):
        seen += data
        if b"session" in seen and b"Quit" in seen:
            os.write(terminal, b"q")
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code or b"Quit" not in seen:
        raise SystemExit(f"the view ended with {code}: {seen[-2000:]!r}")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""  # how a terminal ends


if __name__ == "__main__":
    main(Path(sys.argv[1]))
