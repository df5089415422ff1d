"""The access store for commands: changes with an entry in the audit log, errors with their fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from agenttrace.cli import opening
from agenttrace.cli.errors import CommandError
from agenttrace.config import did_you_mean

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore

T = TypeVar("T")


@contextmanager
def access_store() -> Iterator[AccessStore]:
    """The access store of the data directory."""
    from agenttrace.serve.access.access_store import open_access

    with open_access(opening.settings()) as store:
        yield store


@contextmanager
def access_errors(store: AccessStore) -> Iterator[None]:
    """Turn errors about users and tokens into errors of a command."""
    from agenttrace.serve.access.logins import NoSuchTokenError
    from agenttrace.serve.access.users import NoSuchUserError, UserError

    try:
        yield
    except NoSuchUserError as error:
        names = [user.name for user in store.users.all()]
        fix = did_you_mean(error.name, names) if names else "There are no users yet: agenttrace user add NAME"
        raise CommandError(str(error), fix) from None
    except NoSuchTokenError as error:
        names = [token.name for token in store.tokens.all()]
        fix = did_you_mean(error.name, names) if names else "There are none yet: agenttrace token create NAME"
        raise CommandError(str(error), fix) from None
    except UserError as error:
        raise CommandError(str(error)) from None


def audited_change(action: str, target: str, change: Callable[[AccessStore], T]) -> T:
    """Make a change and write it to the audit log, whether it succeeds or not."""
    from agenttrace.serve.access.audit import DONE

    with access_store() as store, access_errors(store):
        number = store.audit.begin(f"cli:{os_user()}", "terminal", action, target)
        try:
            changed = change(store)
        except BaseException as error:
            store.audit.end(number, str(error) or type(error).__name__)
            raise
        store.audit.end(number, DONE)
        return changed


def os_user() -> str:
    """The name of the user who runs the command."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
