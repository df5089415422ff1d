"""The types of settings: their limits, and how an error message describes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec

_MOST = 2**31 - 1


def _valid(description: str, *, split: str = "", zone: bool = False, **limits: Any) -> msgspec.Meta:  # noqa: ANN401 - limits of msgspec.Meta
    """What is valid; ``split``: the characters between the entries of a list in an environment variable."""
    return msgspec.Meta(description=description, extra={"split": split, "zone": zone}, **limits)


Text = Annotated[str, _valid("a string that is not empty", pattern=r"^[^\x00]+$")]
Zone = Annotated[Text, _valid('"local" or an IANA name such as "Asia/Shanghai" (needs tzdata)', zone=True)]
Names = Annotated[tuple[Text, ...], _valid('a list of strings, such as ["one", "two"]', split=", PATHSEP")]
Paths = Annotated[tuple[Text, ...], _valid('a list of strings, such as ["one", "two"]', split="PATHSEP")]
Patterns = Annotated[tuple[Text, ...], _valid('a list of strings, such as ["one", "two"]', split="\n")]
Positive = Annotated[int, _valid(f"a whole number from 1 to {_MOST}", ge=1, le=_MOST)]
Natural = Annotated[int, _valid(f"a whole number from 0 to {_MOST}", ge=0, le=_MOST)]
Workers = Annotated[int, _valid("a whole number from 0 to 256", ge=0, le=256)]
Retries = Annotated[int, _valid("a whole number from 0 to 10", ge=0, le=10)]
Seconds = Annotated[float, _valid("a number above 0 and up to 86400", gt=0, le=86400)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[^\s:/\\@\[\]?#%*]+(:[0-9]{1,5})?$")]
HostNames = Annotated[
    tuple[HostName, ...],
    # A host may have a port behind a colon.
    _valid('a list of host names, such as ["trace.example.com", "trace.example.com:8443"]', split=","),
]
Hours = Annotated[int, _valid("a whole number from 1 to 8784", ge=1, le=8784)]
Secret = Annotated[str, _valid("at least 32 characters that are hard to guess", min_length=32)]
Login = Annotated[Literal["auto", "always", "none"], _valid('one of "auto", "always" and "none"')]
Figures = Annotated[Literal["everyone", "admins"], _valid('"everyone" or "admins"')]
TeamRole = Literal["viewer", "member", "admin"]
NewRole = Annotated[
    Literal["viewer", "member", "admin", "none"], _valid('one of "viewer", "member", "admin" and "none"')
]
Roles = Annotated[dict[Text, TeamRole], _valid('a table of groups and roles, such as { "ops" = "admin" }')]
DaysByGlob = Annotated[
    dict[Text, Annotated[int, msgspec.Meta(ge=1, le=_MOST)]],
    _valid('a table of globs and days, such as { "*/secret/*" = 30 }'),
]
Url = Annotated[str, _valid("a URL that begins with https:// or http://", pattern=r"^https?://[^\s]+$")]
Currency = Annotated[
    str, _valid('"native", or the code of a currency, such as "USD", "CNY" or "EUR"', pattern=r"^(native|[A-Z]{3})$")
]
Port = Annotated[int, _valid("a whole number from 0 to 65535", ge=0, le=65_535)]
Big = Annotated[int, _valid("a whole number from 1", ge=1, le=2**62)]
Switch = Annotated[bool, _valid("true or false")]
Rate = Annotated[Decimal, _valid("a number above 0, such as 7.1")]
Rates = Annotated[
    dict[Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}$")], Decimal],
    _valid("a table of currencies and numbers above 0, such as { CNY = 0.14, EUR = 1.1 }"),
]
