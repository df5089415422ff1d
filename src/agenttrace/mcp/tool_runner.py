"""Runs tools against the store: each call in a thread, read-only, and can be cancelled.

The store is opened for each call. So the store may appear, be upgraded or be rebuilt while the server runs, and an
idle server has no file open.
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
from agenttrace.mcp.masked_texts import MaskedTexts
from agenttrace.mcp.reading_order import ReadingOrders
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.redaction import redacted
from agenttrace.store.errors import CorruptStoreError, QueryInterruptedError
from agenttrace.store.store import Store
from agenttrace.store.team_place import open_shown_store
from agenttrace.views.trouble import TroubleError

T = TypeVar("T")

#: Clients give up on a tool after a minute.
_SECONDS = 30.0
#: Concurrent calls; further ones wait.
_AT_ONCE = 4
_BLOCK_BYTES = 16 << 20
#: The usual length of names and directories in answers.
_LINE_CHARS = 300
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError)
_TOO_LONG = (f"this takes longer than {_SECONDS:.0f} s", "Ask for less: one agent, one project, a shorter time.")


class Machine:
    """State that calls share: settings, prices, masking, and caches of what was read last."""

    def __init__(self, settings: Settings) -> None:
        # Compiling the patterns of all secrets takes longer than the client's handshake.
        from agenttrace.masking import Mask

        self.settings = settings
        self.shown = MaskedTexts(Mask(settings.export.mask).text)
        self.texts = SessionTexts(block_bytes=_BLOCK_BYTES)
        self.orders = ReadingOrders()

    @cached_property
    def prices(self) -> Cashier:
        """What tokens cost."""
        return Cashier.load(self.settings)


class ToolContext:
    """What a tool answers a call with: a snapshot of the store, and the shared state."""

    def __init__(self, store: Store, machine: Machine) -> None:
        self.store, self.machine = store, machine
        self.settings, self.shown, self.texts = machine.settings, machine.shown, machine.texts

    @property
    def prices(self) -> Cashier:
        """What tokens cost."""
        return self.machine.prices

    def line(self, text: str | None, chars: int = _LINE_CHARS) -> str | None:
        """A masked text on one line; ``None`` where nothing is left of it."""
        return self.shown.line(text, chars) or None


class ToolRunner:
    """Runs the functions of tools."""

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._limiter: anyio.CapacityLimiter | None = None

    async def ask(self, question: Callable[[ToolContext], T]) -> T:
        """The answer to a question; when the caller is cancelled, so is the question."""
        self._limiter = self._limiter or anyio.CapacityLimiter(_AT_ONCE)
        over = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                self.asked, question, over, abandon_on_cancel=True, limiter=self._limiter
            )
        finally:
            over.set()

    def asked(self, question: Callable[[ToolContext], T], over: threading.Event) -> T:
        """The same, in this thread."""
        try:
            return self._answered(question, over)
        except QueryInterruptedError:
            raise TroubleError(*_TOO_LONG, misused=True) from None

    def _answered(self, question: Callable[[ToolContext], T], over: threading.Event) -> T:
        machine = self._shared_state()
        end = time.monotonic() + _SECONDS
        with (
            open_shown_store(machine.settings) as store,
            store.interrupted_when(lambda: over.is_set() or time.monotonic() > end),
            store.snapshot(),
        ):
            try:
                # Every answer passes here: what a tool did not mask is masked now.
                return redacted(question(ToolContext(store, machine)), machine.shown.leaving)
            except TroubleError as error:
                masked = (machine.shown.leaving(text) for text in (error.problem, error.fix))
                raise TroubleError(*masked, misused=error.misused) from None
            except _DECODE_ERRORS as error:
                # SQLite checks its pages, not the values in them.
                raise CorruptStoreError(f"what was recorded cannot be read ({error})") from error

    def _shared_state(self) -> Machine:
        # Settings that could not be read are read again for the next call: the user may have fixed them.
        if self._machine is None:
            self._machine = Machine(load_settings())
        return self._machine
