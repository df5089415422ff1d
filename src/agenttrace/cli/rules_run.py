"""``agenttrace rules run``: the engine of rules as a process, and what connects it with the rest of the program.

The server of a team runs the engine in a thread, on the team's store: ``running_team_rules``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace.cli import opening
from agenttrace.cli.child_process import ChildProcess, watching_store, when_input_ends
from agenttrace.cli.stopping import beside, setter, until_stopped
from agenttrace.config import SettingsError
from agenttrace.config.rule_tables import all_rules, console_file
from agenttrace.locking import LockedError, ProcessLock
from agenttrace.rules.journal import RuleJournal
from agenttrace.rules.lock import NAME, owner
from agenttrace.store.errors import STORE_FAILURES, NewerStoreError
from agenttrace.views.places import store_path

if TYPE_CHECKING:
    from agenttrace.cli.chain_jobs import ChainJobs
    from agenttrace.config import Settings
    from agenttrace.config.rules import ActionType
    from agenttrace.prices.costing import Cashier
    from agenttrace.rules.actions.chain import ChainStarter
    from agenttrace.rules.actions.contract import Action
    from agenttrace.rules.crossings import CrossingSource
    from agenttrace.rules.engine import EventSource, RuleEngine
    from agenttrace.rules.runner import ActionRunner
    from agenttrace.store.current import StoreSource
    from agenttrace.store.rule_store import RuleStore

logger = logging.getLogger(__name__)

#: The engine gives way to the recorder.
_NICE = 5
#: How long actions may go on after a stop; what is cut off is repeated with the same idempotency key.
_GRACE_SECONDS = 10.0
#: How often the settings file and the store's file are checked for being others.
_CHECK_SECONDS = 1.0
#: How often the state for the guard is written while something is recorded.
_GUARD_SECONDS = 2.0
#: How often a server of a team checks whether another one still runs the rules.
_TURN_SECONDS, _AGAIN_SECONDS = 0.5, 10
#: How often the log of rules of a team is cleaned up; on a machine the recorder does it.
_PRUNE_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0


@contextmanager
def running_rules(settings: Settings) -> Iterator[None]:
    """Run the rules while the block lasts, as soon as there are some."""
    with ChildProcess(settings, "rules", owner, _Wanted(settings)):
        yield


class _Wanted:
    """Whether a rule is on, or there is a budget; the answer stays yes."""

    def __init__(self, settings: Settings) -> None:
        self._files = _Files(settings)
        self._settings = settings
        self._found = False

    def __call__(self) -> bool:
        with suppress(SettingsError):
            self._settings = self._files.changed() or self._settings
        self._found = self._found or bool(self._settings.budgets) or any_on(self._settings)
        return self._found


def any_on(settings: Settings) -> bool:
    """Whether a rule is on, in the settings or by a switch."""
    rules = all_rules(settings).rules.values()
    if any(rule.mode != "off" or RuleJournal(settings.home, rule.name).mode() in ("on", "dry") for rule in rules):
        return True
    if not store_path(settings).exists():
        return False
    try:
        with opening.opened_store(settings) as store:
            return any(state.mode in ("on", "dry") for state in store.rules.states().values())
    except Exception:
        # An older store, or one that is locked or damaged: others report it.
        return False


def register_rules(settings: Settings) -> None:
    """Have events noted for the rules, before recording starts."""
    if not any_on(settings):
        return
    from agenttrace.calendar import day_finder
    from agenttrace.rules.engine import register

    with opening.opened_store(settings, read_only=False) as store:
        day_of = day_finder(settings.usage.timezone)
        register(store, all_rules(settings), home=settings.home, day_of=day_of, now=time.time())


def make_actions(
    settings: Settings, store: RuleStore, chains: ChainStarter, team: StoreSource | None = None
) -> dict[ActionType, Action]:
    """What each type of action is carried out by."""
    from agenttrace.cli.kept_answers import kept_in
    from agenttrace.cli.session_inputs import SessionInputs
    from agenttrace.masking import Mask
    from agenttrace.rules.actions.chain import Chain
    from agenttrace.rules.actions.command import Command
    from agenttrace.rules.actions.notify import Notify
    from agenttrace.rules.actions.webhook import Webhook

    mask = Mask(settings.export.mask)
    texts = SessionInputs(settings, mask.text, team)
    return {
        "chain": Chain(chains, texts, mask.value, kept_in(store, mask.text)),
        "webhook": Webhook(mask.value),
        "notify": Notify(mask.value),
        "command": Command(settings.home, mask.value, texts),
    }


def run(settings: Settings, *, until_input_ends: bool) -> None:
    """Run the rules until Ctrl-C, SIGTERM, or where asked for the end of the input."""

    async def main(stop: asyncio.Event) -> None:
        if until_input_ends:
            when_input_ends(setter(asyncio.get_running_loop(), stop))
            with suppress(AttributeError, OSError):
                os.nice(_NICE)
        await keep_running(settings, stop)

    with _locked(settings):
        until_stopped(main, drain_seconds=_GRACE_SECONDS)


@contextmanager
def running_team_rules(settings: Settings, team: StoreSource) -> Iterator[None]:
    """Run the rules of a team's server in a thread while the block lasts.

    Of several servers with one data directory one runs them; when it ends, or is killed, another one takes over.
    """

    def failed(error: BaseException) -> None:
        logger.error("the rules are not run any more", exc_info=error)

    with beside(partial(_run_in_turn, settings, team), failed, name="rules"):
        yield


async def _run_in_turn(settings: Settings, team: StoreSource, stop: asyncio.Event) -> None:
    from agenttrace.rules.service import pause

    told = False
    while not stop.is_set():
        try:
            lock = ProcessLock(settings.home / NAME)
        except LockedError as error:
            if not told:
                logger.info("process %s runs the rules; this one takes over when it ends", error.owner or "unknown")
            told = True
            await pause(stop, _TURN_SECONDS)
            continue
        with lock:
            try:
                await keep_running(settings, stop, team)
            except Exception:
                # A bug in one event or rule; the events wait. On a machine the process would be started again.
                logger.exception("the rules begin anew in %d s", _AGAIN_SECONDS)
                await pause(stop, _AGAIN_SECONDS)


@contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    from agenttrace.cli.errors import CommandError
    from agenttrace.config import ensure_home

    try:
        lock = ProcessLock(ensure_home(settings) / NAME)
    except LockedError as error:
        problem = f"the rules of {settings.home} are run by process {error.owner or 'unknown'} already"
        raise CommandError(problem, "Stop that process first.") from None
    with lock:
        yield


async def keep_running(settings: Settings, stop: asyncio.Event, team: StoreSource | None = None) -> None:
    """Run the rules until ``stop`` is set; a store that was rebuilt meanwhile is opened anew.

    ``team``: the store of a team, instead of that of this machine.
    """
    from agenttrace.cli.chain_jobs import ChainJobs
    from agenttrace.rules.service import TROUBLE_SECONDS, pause

    files = _Files(settings)
    async with ChainJobs(settings) as chains:
        while not stop.is_set():
            try:
                path = store_path(settings) if team is None else Path(team.target)
                async with watching_store(path, stop) as done:
                    with _opened(settings, team) as store:
                        settings = await _serve(settings, store, chains, files, done, team)
            except STORE_FAILURES as error:
                if isinstance(error, NewerStoreError):
                    raise
                # Locked, full, or damaged and about to be recovered.
                logger.warning("the store cannot be used: %s", error)
                await pause(stop, TROUBLE_SECONDS)


def _opened(settings: Settings, team: StoreSource | None) -> RuleStore:
    return opening.opened_store(settings, read_only=False) if team is None else team.team_store()


async def _serve(
    settings: Settings,
    store: RuleStore,
    chains: ChainJobs,
    files: _Files,
    done: asyncio.Event,
    team: StoreSource | None,
) -> Settings:
    """Run the rules on one store, until ``done`` is set; the settings by then."""
    from agenttrace.rules.service import serve

    engine, runner = make_engine(settings, store, chains, team)
    upkeep = _Upkeep(settings, files, store, engine, runner, chains, team)
    try:
        await serve(_version_of(store), engine, runner, done, on_look=upkeep)
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(runner.drain(), _GRACE_SECONDS)
        await runner.cancel()
    return upkeep.settings


def _version_of(store: RuleStore) -> Callable[[], int]:
    """Tells whether something was committed; a database is looked at now and then only."""
    from agenttrace.store.sqlite.store import SqliteStore

    return store.commits if isinstance(store, SqliteStore) else lambda: 0


def make_engine(
    settings: Settings, store: RuleStore, chains: ChainStarter, team: StoreSource | None = None
) -> tuple[RuleEngine, ActionRunner]:
    """Engine and runner of this data directory."""
    from agenttrace.calendar import day_finder
    from agenttrace.rules.actions.command import is_caused
    from agenttrace.rules.engine import RuleEngine
    from agenttrace.rules.runner import ActionRunner
    from agenttrace.rules.team_events import is_copy

    cashier = _cashier(settings)
    engine = RuleEngine(
        store,
        all_rules(settings),
        home=settings.home,
        cashier=cashier,
        day_of=day_finder(settings.usage.timezone),
        sources=_sources(settings, store, cashier, team),
        is_caused=partial(is_caused, settings.home),
        is_copy=None if team is None else partial(is_copy, store),
        looks_back=team is None,
    )
    actions = make_actions(settings, store, chains, team)
    return engine, ActionRunner(store, engine, home=settings.home, cashier=cashier, actions=actions)


def _sources(settings: Settings, store: RuleStore, cashier: Cashier, team: StoreSource | None) -> list[EventSource]:
    """What finds events in what is stored: secrets, and what budgets and limits have crossed; of a team, all."""
    from agenttrace.masking import Mask
    from agenttrace.rules.secrets import SecretSource
    from agenttrace.rules.team_events import TeamEvents
    from agenttrace.store.sqlite.store import SqliteStore

    mask, crossings = Mask(settings.export.mask).text, _crossings(settings, store, cashier)
    if team is not None:
        return [TeamEvents(store, mask), crossings]
    assert isinstance(store, SqliteStore)
    return [SecretSource(store, mask), crossings]


def _crossings(settings: Settings, store: RuleStore, cashier: Cashier) -> CrossingSource:
    from agenttrace.calendar import zone
    from agenttrace.rules.budgets import crossings_since
    from agenttrace.rules.crossings import CrossingSource
    from agenttrace.rules.limits import limit_crossings, limit_states

    return CrossingSource(
        store,
        lambda since, now: crossings_since(store, settings, since, now, cashier),
        lambda now: limit_crossings(limit_states(store, settings, now, cashier)),
        zone=zone(settings.usage.timezone),
    )


class _Upkeep:
    """What is done before a look: read settings that changed, and write the state that the guard reads."""

    def __init__(
        self,
        settings: Settings,
        files: _Files,
        store: RuleStore,
        engine: RuleEngine,
        runner: ActionRunner,
        chains: ChainJobs,
        team: StoreSource | None,
    ) -> None:
        #: The settings that the rules are from.
        self.settings = settings
        self._files = files
        self._new: Settings | None = None
        self._store, self._engine, self._runner, self._chains = store, engine, runner, chains
        self._cashier = _cashier(settings)
        self._team = team
        self._commits, self._refreshed, self._pruned = -1, 0.0, -math.inf

    def __call__(self) -> None:
        try:
            self._new = self._files.changed() or self._new
        except SettingsError as error:
            logger.warning("the rules stay as they were: %s", error)
        if self._new is not None:
            # If the store is locked now, the next look tries it again.
            self._use(self._new)
            self.settings, self._new = self._new, None
        if self._team is None:
            self._refresh_guard()
        elif time.monotonic() - self._pruned >= _PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self._prune()

    def _prune(self) -> None:
        """Remove from the log of rules what is old."""
        kept, now = self.settings.retention.rules_days, time.time()
        for _ in self._store.rules.prune(now - kept * _DAY_SECONDS, now) if kept else ():
            pass

    def _use(self, settings: Settings) -> None:
        """Rules, budgets, masks, prices and the time zone of these settings."""
        from agenttrace.calendar import day_finder

        cashier = _cashier(settings)
        sources = _sources(settings, self._store, cashier, self._team)
        self._engine.use(cashier=cashier, day_of=day_finder(settings.usage.timezone), sources=sources)
        self._engine.keep(all_rules(settings))
        self._runner.use(cashier=cashier, actions=make_actions(settings, self._store, self._chains, self._team))
        self._chains.use(settings)
        self._cashier, self._commits = cashier, -1

    def _refresh_guard(self) -> None:
        commits, now = _version_of(self._store)(), time.monotonic()
        if not self.settings.budgets or commits == self._commits or now - self._refreshed < _GUARD_SECONDS:
            return
        self._commits, self._refreshed = commits, now
        from agenttrace.rules import guard_state

        guard_state.refresh(self._store, self.settings, self._cashier)


def _cashier(settings: Settings) -> Cashier:
    from agenttrace.prices.costing import Cashier

    return Cashier.load(settings)


class _Files:
    """The files that rules are written in, and that of ``agenttrace prices update``."""

    def __init__(self, settings: Settings) -> None:
        from agenttrace.prices.table import FILE_NAME

        files = (settings.file, console_file(settings.home), settings.home / FILE_NAME)
        self._paths = [path for path in files if path is not None]
        self._known = self._stamps()
        self._checked = time.monotonic()

    def changed(self) -> Settings | None:
        """The settings, where a file changed since the last call."""
        if time.monotonic() - self._checked < _CHECK_SECONDS:
            return None
        self._checked = time.monotonic()
        stamps = self._stamps()
        if stamps == self._known:
            return None
        self._known = stamps
        return opening.settings()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
