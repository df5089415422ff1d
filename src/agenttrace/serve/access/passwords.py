"""Passwords, stored as argon2id hashes with the parameters of RFC 9106 for machines with little memory."""

from __future__ import annotations

import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

LEAST, MOST = 12, 1024

_HASHER = PasswordHasher()
#: Matches no password. Checked for an unknown name, so that the answer takes as long as for a wrong password.
NOBODYS = (
    f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    "$bm9ib2R5bm9ib2R5bm9ibw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)


class WeakPasswordError(ValueError):
    """A password that is not accepted, and why."""


def check_strength(password: str) -> None:
    """Raise for a password that is too short, or longer than a login form sends."""
    if len(password) < LEAST:
        raise WeakPasswordError(f"a password has at least {LEAST} characters, this one {len(password)}")
    if len(password) > MOST:
        raise WeakPasswordError(f"a password has at most {MOST} characters")
    if len(set(password)) < LEAST // 3:
        raise WeakPasswordError("the same few characters again and again are no password")


def hashed(password: str) -> str:
    """The hash that is stored; slow on purpose, so call it in a thread."""
    return _HASHER.hash(_octets(password))


def matches(kept: str, password: str) -> bool:
    """Whether this is the password of a hash; as slow."""
    try:
        return _HASHER.verify(kept, _octets(password))
    except (VerificationError, InvalidHashError):
        return False


def _octets(password: str) -> bytes:
    # Keyboards differ in how they compose letters; the password is the same.
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
