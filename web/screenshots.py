"""Makes the images of the README from the demo: ``make screenshots``.

Latin text is in the fonts of the page. Chinese text is in a font of the system; where it has none, one comes from npm.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

#: The images, and which of them exist in dark, too.
LIGHT = ("overview", "waterfall", "sessions", "session", "usage", "job", "insights", "changes")
DARK = ("overview", "waterfall")
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_PROGRAM = (sys.executable, "-m", "agenttrace.cli.main")
_SIZE: ViewportSize = {"width": 1280, "height": 800}
#: The session of the demo that has something of everything: a failed tool, edits, a commit.
_TITLE = "Flaky link checker test"
_CHINESE = "@embedpdf/fonts-sc@1.0.0"
_CHINESE_FONTS = ("package/fonts/NotoSansHans-Regular.otf", "package/fonts/NotoSansHans-Bold.otf")


@contextmanager
def demo() -> Iterator[tuple[str, str]]:
    """Run the console of the demo; yields its link. Its data is removed afterwards."""
    command = "demo --console --port 0 --json --days 29"
    process = subprocess.Popen([*_PROGRAM, *command.split()], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        environ = {**os.environ, "AGENTTRACE_HOME": str(Path(told["home"]) / ".agenttrace")}
        found = subprocess.run([*_PROGRAM, "open", "--json"], env=environ, stdout=subprocess.PIPE, check=True)
        yield told["url"], json.loads(found.stdout)["link"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def chinese_font() -> Iterator[dict[str, str]]:
    """Variables with which a browser has a font for Chinese."""
    lister = shutil.which("fc-list")
    if lister and subprocess.run([lister, ":lang=zh"], stdout=subprocess.PIPE, check=True).stdout.strip():
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        command = [shutil.which("npm", path=path) or "npm", "pack", "--silent", "--pack-destination", folder, _CHINESE]
        subprocess.run(command, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=True)
        (package,) = Path(folder).glob("*.tgz")
        with tarfile.open(package) as files:
            for name in _CHINESE_FONTS:
                files.extract(name, Path(folder) / "fonts", filter="data")
        yield {"XDG_DATA_HOME": folder}


def asked(page: Page, path: str) -> Any:  # noqa: ANN401 - any JSON
    """The answer of the API, with the login of the page."""
    return page.request.get(f"/api/v1{path}").json()


def wait_for_jobs(page: Page) -> dict[str, int]:
    """Wait for the jobs of the demo; returns them by their chain."""
    while True:
        jobs = asked(page, "/jobs")["items"]
        done = {job["app_chain"]: job["id"] for job in jobs if job["status"] == "completed"}
        if len(done) >= 5 and len(jobs) >= 9:
            return done
        page.wait_for_timeout(500)


#: So many sessions wait for the user, who sees what that looks like.
_WAITING = 4


def main() -> None:
    """Make all images."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium is not None, "no Chromium on this machine; try: apt install chromium fonts-noto-cjk"
    IMAGES.mkdir(exist_ok=True)
    with chinese_font() as fonts, demo() as (url, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS), env={**os.environ, **fonts})

        dark = browser.new_page(viewport=_SIZE, color_scheme="dark", base_url=url, locale="en-US")
        light = browser.new_page(viewport=_SIZE, color_scheme="light", base_url=url, locale="en-US")
        for page in (dark, light):
            page.goto(link)
        jobs = wait_for_jobs(dark)
        while len(asked(dark, "/sessions?state=waiting&limit=20")["items"]) < _WAITING:
            dark.wait_for_timeout(500)
        sessions = asked(dark, "/sessions?agent=claude-code&errors=true&sort=tokens&limit=100")["items"]
        session = next(each["key"] for each in sessions if each["title"] == _TITLE)
        spans = asked(dark, f"/sessions/{session}/timeline")
        failed = spans["span_id"][spans["status"].index("error")]
        paths = {
            "overview": "/",
            "sessions": "/sessions",
            "session": f"/sessions/{session}",
            "waterfall": f"/sessions/{session}?tab=waterfall&span={failed}",
            "usage": "/usage",
            "insights": "/insights",
            "changes": f"/sessions/{session}?tab=changes",
            "job": f"/runs/jobs/{jobs['app3→app8→app7+app4→app5']}",
        }
        for page, names, ending in ((light, LIGHT, ""), (dark, DARK, "-dark")):
            for name in names:
                page.goto(paths[name])
                # The live stream never ends, so the network is never idle; wait a moment for the last texts.
                page.wait_for_timeout(2500)
                page.screenshot(path=IMAGES / f"{name}{ending}.png")
        browser.close()


if __name__ == "__main__":
    main()
