"""The store as tools see it: each question is answered in a thread, read-only, and can be cancelled.

The store is opened for each question. So it does not matter whether the store appears, is upgraded or is made anew
while the server runs; and a server without questions holds nothing open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import anyio
import anyio.to_thread
import msgspec

from agenttrace.config import Settings, load_settings
from agenttrace.mcp.order import ReadingOrders
from agenttrace.mcp.shown import Shown
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.redaction import redacted
from agenttrace.store import open_store
from agenttrace.store.errors import CorruptStoreError, QueryInterruptedError
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.trouble import TroubleError

T = TypeVar("T")

#: Clients give up on a tool after a minute.
_SECONDS = 30.0
#: Questions at a time; the others wait.
_AT_ONCE = 4
_BLOCK_BYTES = 16 << 20
_RUBBISH = (msgspec.DecodeError, UnicodeDecodeError)
_TOO_LONG = (f"this takes longer than {_SECONDS:.0f} s", "Ask for less: one agent, one project, a shorter time.")


class Machine:
    """What stays the same from question to question: settings, prices, how texts are shown, what was read lately."""

    def __init__(self, settings: Settings) -> None:
        # The patterns of all secrets take longer to make than the client takes to say hello.
        from agenttrace.masking import Mask

        self.settings = settings
        self.shown = Shown(Mask(settings.export.mask).text)
        self.texts = SessionTexts(block_bytes=_BLOCK_BYTES)
        self.orders = ReadingOrders()

    @cached_property
    def prices(self) -> Cashier:
        """What tokens cost."""
        return Cashier.load(self.settings)


class ToolContext:
    """What a tool answers one question with: the store at one moment, and what stays from question to question."""

    def __init__(self, store: SqliteStore, machine: Machine) -> None:
        self.store, self.machine = store, machine
        self.settings, self.shown, self.texts = machine.settings, machine.shown, machine.texts

    @property
    def prices(self) -> Cashier:
        """What tokens cost."""
        return self.machine.prices


class Past:
    """Answers questions about what was recorded on this machine."""

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._limiter: anyio.CapacityLimiter | None = None

    async def ask(self, question: Callable[[ToolContext], T]) -> T:
        """What the question finds; when the caller is cancelled, so is the question."""
        self._limiter = self._limiter or anyio.CapacityLimiter(_AT_ONCE)
        over = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                self.asked, question, over, abandon_on_cancel=True, limiter=self._limiter
            )
        finally:
            over.set()

    def asked(self, question: Callable[[ToolContext], T], over: threading.Event) -> T:
        """The same in this thread."""
        try:
            return self._answered(question, over)
        except QueryInterruptedError:
            raise TroubleError(*_TOO_LONG, misused=True) from None

    def _answered(self, question: Callable[[ToolContext], T], over: threading.Event) -> T:
        machine = self._known()
        end = time.monotonic() + _SECONDS
        with (
            open_store(machine.settings) as store,
            store.interrupted_when(lambda: over.is_set() or time.monotonic() > end),
            store.snapshot(),
        ):
            try:
                # Here everything leaves: whatever a tool has forgotten to mask is masked now.
                return redacted(question(ToolContext(store, machine)), machine.shown.leaving)
            except TroubleError as error:
                told = (machine.shown.leaving(text) for text in (error.problem, error.fix))
                raise TroubleError(*told, misused=error.misused) from None
            except _RUBBISH as error:
                # SQLite vouches for its tables, not for what is in them.
                raise CorruptStoreError(f"what was recorded cannot be read ({error})") from error

    def _known(self) -> Machine:
        # Read again for the next question where they could not be read: the user may have mended them.
        if self._machine is None:
            self._machine = Machine(load_settings())
        return self._machine
