"""The application: its keys, the check for changes, and what is started beside it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from agenttrace.cli.open import open_link
from agenttrace.cli.terminal.live import LiveScreen
from agenttrace.cli.terminal.reader import Reader
from agenttrace.cli.terminal.recording import Recording
from agenttrace.cli.terminal.screens import Dialog, TraceScreen
from agenttrace.cli.terminal.search import SearchScreen
from agenttrace.cli.terminal.session_list import SessionsScreen
from agenttrace.cli.terminal.usage_table import UsageScreen
from agenttrace.config import Settings
from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.store.current import NO_STORE
from agenttrace.views.plain import safe
from agenttrace.views.resume import Resume, resume_of

#: How often the store is checked for changes; a check takes microseconds.
_LOOK_SECONDS = 0.5
#: A session becomes "interrupted" by the passing of time: screens are loaded again after so many checks.
_QUIET_LOOKS = 20

_HELP = """\
Keys

enter       open a session, or all texts of a line
esc         back
↑ ↓ j k     move       g G   first and last line
space       in a session: hide and show what is below
← →         close and open
e           next error
f           live events; in a session: follow its end
/           search prompts, answers, calls, results
u           tokens and cost; d m a p: by day, model, agent, project
r           the command that resumes the session
o           open the session in the console
s           start recording while this view is open
q           quit

Marks

✓ done   ✗ failed   ⊘ cancelled   ? its end is not in the log
… still at work     + something is below it
In the tree: duration, tokens in, tokens out, cost
"""


class TraceApp(App[str]):
    """The full-screen view; its result is a command to print."""

    TITLE = "AgentTrace"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #bar { height: 1; background: $surface; }
    #columns { height: 1; }
    #remark { height: 1; padding: 0 1; }
    #facts { height: 2; padding: 0 1; }
    #nothing { padding: 1 2; height: 1fr; }
    #texts { padding: 0 1; height: 1fr; }
    #words { margin: 0 1; }
    Dialog { align: center middle; }
    #dialog { width: 76; max-width: 100%; height: auto; max-height: 100%; border: round $foreground 50%; padding: 0 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("f", "live", "Live"),
        Binding("u", "usage", "Usage"),
        Binding("r", "resume", "Resume"),
        Binding("o", "console", "Console"),
        # The bar offers it where nothing records.
        Binding("s", "record", "Record", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit", priority=False),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, settings: Settings, *, browser: bool = False, record: bool = False) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self.reader = Reader(settings)
        self.recording = Recording()
        self._browser, self._record = browser, record
        self._seen, self._looks = NO_STORE, 0
        self._busy = False

    async def on_mount(self) -> None:
        """Show the sessions, and watch the store."""
        if self._record:
            self.recording.start()
        self.push_screen(SessionsScreen())
        self.set_interval(_LOOK_SECONDS, self._look)

    async def _look(self) -> None:
        """Load the screen again when something was recorded."""
        if self._busy:
            return
        self._busy = True
        try:
            version, self._looks = await self.reader.version(), self._looks + 1
            if (failure := self.recording.failure()) is not None:
                self.notify(f"Recording has stopped: {safe(failure)}", severity="error", timeout=30, markup=False)
            if version != self._seen or self._looks % _QUIET_LOOKS == 0:
                self._seen = version
                if isinstance(self.screen, TraceScreen):
                    await self.screen.load()
                self.refresh_bindings()
        finally:
            self._busy = False

    def recording_text(self) -> Text:
        """Whether something records, for the bar."""
        if self.reader.problem:
            return Text(f"the store cannot be read: {safe(self.reader.problem)[:40]}", style="red")
        if self.recording.process is not None:
            return Text("recording until you quit", style="green")
        if self.reader.recording_process() is not None:
            return Text("recording", style="green")
        return Text("nothing records: s starts it", style="bold yellow")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Starting a recorder is offered only where none runs."""
        if action == "record":
            return self.recording.process is None and self.reader.recording_process() is None
        return True

    def _chosen(self) -> Session | None:
        return self.screen.chosen_session() if isinstance(self.screen, TraceScreen) else None

    # -- keys ----------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search."""
        self.push_screen(SearchScreen())

    def action_live(self) -> None:
        """Events of all sessions."""
        self.push_screen(LiveScreen())

    def action_usage(self) -> None:
        """Tokens and cost."""
        self.push_screen(UsageScreen())

    def action_help(self) -> None:
        """All keys."""
        self.push_screen(Dialog(Text(_HELP)))

    def action_record(self) -> None:
        """Start recording, where nothing records."""
        if self.check_action("record", ()):
            self.recording.start()
            self.notify("Recording while this view is open. For good: agenttrace service install")
            self.refresh_bindings()
            if isinstance(self.screen, TraceScreen):
                self.screen.update_bar()

    async def action_resume(self) -> None:
        """Copy the command that resumes the session, and offer to print it."""
        session = self._chosen()
        if session is None:
            self.notify("Choose a session first.")
            return
        how = await self.reader.ask(lambda store: resume_of(store, session, self.reader.texts.index), lambda: None)
        if how is None:
            self.notify("This agent has no command to resume a session.", severity="warning")
            return
        self.copy_to_clipboard(how.line)
        self.push_screen(Dialog(_resume_text(how), "quit and print it"), lambda yes: self._leave(how.line, yes))

    def _leave(self, line: str, confirmed: bool | None) -> None:
        if confirmed:
            self.exit(line)

    def action_console(self) -> None:
        """Open the session in the console that runs."""
        from agenttrace.serve.access.link import running_consoles

        home: Path = self.reader.settings.home
        console = next(iter(running_consoles(home)), None)
        if console is None:
            self.notify("No console runs. Start it: agenttrace up (or the key s)", severity="warning")
            return
        session = self._chosen()
        place = "" if session is None else f"sessions/{session_key(session.id)}"
        link = (console.link or f"{console.url}/").replace(f"{console.url}/", f"{console.url}/{place}", 1)
        if not (self._browser and open_link(home, link)):
            self.push_screen(Dialog(Text(f"The console\n\n{link}")))


def _resume_text(how: Resume) -> Text:
    text = Text.assemble(("Resume", "bold"), f"\n\n{safe(how.line)}\n")
    if how.directory_gone:
        text.append("\nThe directory does not exist on this machine.", style="yellow")
    if how.remark:
        text.append(f"\n{how.remark}", style="yellow")
    text.append("\nIt was copied, if this terminal lets programs copy.", style="dim")
    return text
