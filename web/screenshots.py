"""Makes the images of the README from the demo: ``make screenshots``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_PROGRAM = (sys.executable, "-m", "agenttrace.cli.main")
_SIZE: ViewportSize = {"width": 1280, "height": 800}


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


def main() -> None:
    """Make all images."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium is not None, "no Chromium on this machine; try: apt install chromium fonts-noto-cjk"
    IMAGES.mkdir(exist_ok=True)
    with demo() as (url, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))

        dark = browser.new_page(viewport=_SIZE, color_scheme="dark", base_url=url, locale="en-US")
        light = browser.new_page(viewport=_SIZE, color_scheme="light", base_url=url, locale="en-US")
        for page in (dark, light):
            page.goto(link)
        jobs = wait_for_jobs(dark)
        session = asked(dark, "/sessions?agent=claude-code&errors=true&sort=tokens&limit=1")["items"][0]["key"]
        spans = asked(dark, f"/sessions/{session}/timeline")
        failed = spans["span_id"][spans["status"].index("error")]
        for page, name, path in (
            (dark, "overview", "/"),
            (light, "sessions", "/sessions?sort=tokens"),
            (light, "session", f"/sessions/{session}"),
            (dark, "waterfall", f"/sessions/{session}?tab=waterfall&span={failed}"),
            (light, "usage", "/usage"),
            (light, "insights", "/insights"),
            (dark, "changes", f"/sessions/{session}?tab=changes"),
            (dark, "job", f"/runs/jobs/{jobs['app3→app8→app7+app4→app5']}"),
        ):
            page.goto(path)
            # The live stream never ends, so the network is never idle; wait a moment for the last texts.
            page.wait_for_timeout(2500)
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
