"""Desktop notifications: notify-send, osascript or a toast of Windows, whichever the machine has.

Texts are passed as arguments or environment variables, never as a part of a script. A machine without a desktop is no
failure: an open console shows the notification, too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.actions.messages import MaskValue, headline, plain, text_of

_TEXT_CHARACTERS = 500
_SECONDS = 15.0

_MAC_SCRIPT = (
    'display notification (system attribute "AGENTTRACE_TEXT") with title (system attribute "AGENTTRACE_TITLE")'
)
_WINDOWS_SCRIPT = """
[Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime] | Out-Null
$t = [Windows.UI.Notifications.ToastTemplateType]::ToastText02
$x = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent($t)
$n = $x.GetElementsByTagName('text')
$n.Item(0).AppendChild($x.CreateTextNode($env:AGENTTRACE_TITLE)) | Out-Null
$n.Item(1).AppendChild($x.CreateTextNode($env:AGENTTRACE_TEXT)) | Out-Null
$toast = [Windows.UI.Notifications.ToastNotification]::new($x)
$id = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe'
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($id).Show($toast)
"""


class Notifier(NamedTuple):
    """A program that shows a notification."""

    argv: Sequence[str]
    environment: Mapping[str, str]


def notifier(title: str, text: str, environ: Mapping[str, str] = os.environ) -> Notifier | None:
    """The program of this machine, with its arguments; ``None`` where there is no desktop."""
    variables = {"AGENTTRACE_TITLE": title, "AGENTTRACE_TEXT": text}
    if sys.platform == "darwin":
        return Notifier(["osascript", "-e", _MAC_SCRIPT], variables)
    if sys.platform == "win32":
        return Notifier(["powershell", "-NoProfile", "-NonInteractive", "-Command", _WINDOWS_SCRIPT], variables)
    has_desktop = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("DBUS_SESSION_BUS_ADDRESS")
    program = shutil.which("notify-send", path=environ.get("PATH"))
    if program is None or not has_desktop:
        return None
    # The text is markup for most desktops.
    return Notifier([program, "--app-name=AgentTrace", "--", title, escape(text, quote=False)], {})


class Notify:
    """Shows notifications."""

    def __init__(self, mask: MaskValue) -> None:
        self._mask = mask

    async def run(self, message: Message) -> ActionResult:
        """Show it on this desktop; the answer is what a console shows."""
        title, text = plain(headline(message)), text_of(message, self._mask)[:_TEXT_CHARACTERS]
        answer = {"title": title, "text": text}
        found = notifier(title, text)
        if found is None:
            return ActionResult("done", "no desktop here; shown in the console", answer)
        try:
            process = await asyncio.create_subprocess_exec(
                *found.argv,
                env={**os.environ, **found.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return ActionResult("done", f"not shown on the desktop ({error}); shown in the console", answer)
        try:
            _, said = await asyncio.wait_for(process.communicate(), _SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            return ActionResult("done", "not shown on the desktop (no answer); shown in the console", answer)
        if process.returncode:
            reason = said.decode("utf-8", "replace").strip()[:200]
            return ActionResult("done", f"not shown on the desktop ({reason}); shown in the console", answer)
        return ActionResult("done", "shown on the desktop", answer)
