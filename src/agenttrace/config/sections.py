"""Every setting, described once: type, default, meaning (Markdown) and an example value.

The console, `agenttrace doctor` and docs/configuration.md show these descriptions.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from agenttrace.config.types import (
    Big,
    Currency,
    DaysByGlob,
    Figures,
    HostNames,
    Hours,
    Login,
    Names,
    Natural,
    NewRole,
    Paths,
    Patterns,
    Port,
    Positive,
    Rate,
    Rates,
    Retries,
    Roles,
    Seconds,
    Secret,
    Switch,
    Text,
    Url,
    Workers,
    Zone,
)

_MIB = 1024 * 1024


def about(meaning: str, example: str, *, secret: bool = False) -> msgspec.Meta:
    """The meaning of a setting, and an example value as TOML; a secret is never shown."""
    return msgspec.Meta(extra={"meaning": meaning, "example": example, "secret": secret})


class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Recording"""

    paths: Annotated[
        Paths, about("Files, directories or globs to record in addition to the agents' own directories.", '["~/logs"]')
    ] = ()
    agents: Annotated[Names, about("The agents to record. Empty: all.", '["codex"]')] = ()
    exclude: Annotated[Paths, about("Globs of paths that are never read.", '["*/private/*"]')] = ()
    # Each commit of another process invalidates SQLite's page cache: small batches make parallel imports slow.
    batch_lines: Annotated[Positive, about("The maximum number of lines in one transaction.", "5000")] = 20_000
    batch_bytes: Annotated[
        Positive,
        about(
            "The maximum size of one transaction (32 MiB), except for a single longer line. Logs are read 1 MiB at a "
            "time.",
            "4194304",
        ),
    ] = 32 * _MIB
    batch_seconds: Annotated[
        Seconds, about("The longest time between reading a line and committing it, however small the batch is.", "0.1")
    ] = 0.5
    poll_seconds: Annotated[
        Seconds, about("The interval at which all files are checked when no change was reported.", "1.5")
    ] = 5.0
    idle_close_seconds: Annotated[
        Seconds, about("How long a rotated file stays open, for lines that are still written to it.", "10")
    ] = 60.0
    max_line_bytes: Annotated[
        Positive,
        about("A longer line, database row or document (32 MiB) is quarantined and not loaded.", "8388608"),
    ] = 32 * _MIB
    max_unpacked_bytes: Annotated[
        Big, about("The limit for an unpacked compressed log (2 GiB). The rest is refused.", "1073741824")
    ] = 2048 * _MIB
    quarantine_lines_per_file: Annotated[
        Positive, about("Quarantined lines that are stored per file. Further ones are only counted.", "100")
    ] = 1000
    quarantine_lines: Annotated[
        Positive, about("Quarantined lines that are stored in total. Further ones are only counted.", "10000")
    ] = 100_000
    follow_symlinks: Annotated[
        Switch, about("Follow symbolic links that lead out of the watched directories.", "true")
    ] = False
    workers: Annotated[Workers, about("Processes for a large first import. 0: one per core.", "2")] = 0
    stale_minutes: Annotated[
        Positive, about("A working session without a new line for this long is shown as interrupted.", "30")
    ] = 15
    waiting_hours: Annotated[
        Natural, about("A session that waits for you counts as ended after so many hours. 0: never.", "24")
    ] = 12


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Retention"""

    days: Annotated[
        Natural,
        about(
            "The content of sessions without activity for this long is removed; tokens and cost stay. 0: never.", "90"
        ),
    ] = 0
    rules_days: Annotated[
        Natural,
        about(
            "What rules did leaves their log after this long, or after `days` where that is less; it fires nothing "
            "again. 0: never.",
            "30",
        ),
    ] = 90


class UsageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Usage and cost"""

    timezone: Annotated[
        Zone, about('The time zone of days in usage reports: `"local"` or an IANA name.', '"Asia/Shanghai"')
    ] = "local"
    currency: Annotated[
        Currency,
        about(
            '`"native"`: each cost in the currency of its price. Another, such as `"USD"`: converted to it, from each '
            "currency with a rate.",
            '"USD"',
        ),
    ] = "native"
    rates: Annotated[
        Rates,
        about(
            "What one unit of another currency is in `usage.currency`. Amounts in a currency without a rate are shown "
            "separately, never added.",
            "{ CNY = 0.14, EUR = 1.1 }",
        ),
    ] = {}
    exchange_rate: Annotated[
        Rate | None,
        about('Yuan per dollar: the rate between `"USD"` and `"CNY"` where `usage.rates` has none.', "7.1"),
    ] = None


class DatabaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """LLM applications: database"""

    url: Annotated[
        Text | None,
        about(
            "A PostgreSQL server (15 or newer) for jobs, run logs and guards. Without it, an embedded server runs "
            "under the data directory. Never shown.",
            '"postgresql://user@db/agenttrace"',
            secret=True,
        ),
    ] = None

    def __repr__(self) -> str:
        return f"DatabaseSettings(url={self.url and '***'!r})"


class JwtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """LLM applications: chat users"""

    secret: Annotated[
        Secret | None,
        about(
            "Signs the bearer tokens of chat users (HS256). At least 32 characters. Without it, chat is disabled. "
            "Never shown.",
            '"at least 32 characters of your own"',
            secret=True,
        ),
    ] = None

    def __repr__(self) -> str:
        return f"JwtSettings(secret={self.secret and '***'!r})"


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """LLM applications"""

    timezone: Annotated[
        Zone,
        about(
            "The time zone of the business day, for budgets, cache expiry and duplicates. The same on all machines.",
            '"Europe/Berlin"',
        ),
    ] = "Asia/Shanghai"
    daily_tokens: Annotated[Big, about("The token budget of a day. Calls beyond it are refused.", "500000")] = 100_000
    monthly_tokens: Annotated[
        Big, about("The token budget of a calendar month. Calls beyond it are refused.", "10000000")
    ] = 2_000_000
    max_call_tokens: Annotated[
        Positive,
        about(
            "The most tokens that one call can use in addition to its prompt, unless the application sets "
            "`max_tokens`. While the remaining budget is smaller than what running calls can use, calls run one at a "
            "time.",
            "8192",
        ),
    ] = 20_000
    failure_threshold: Annotated[
        Positive, about("Consecutive failures that open an application's circuit breaker.", "3")
    ] = 5
    recovery_seconds: Annotated[
        Seconds, about("How long a circuit breaker stays open before one probe call is allowed.", "30")
    ] = 60.0
    retries: Annotated[
        Retries, about("Retries of a failed call, as long as no part of its answer was passed on.", "1")
    ] = 3
    retry_seconds: Annotated[
        Seconds, about("The delay before the first retry. Each further delay is twice as long.", "0.5")
    ] = 1.0
    user_calls_per_minute: Annotated[Positive, about("Chat messages per user in any 60 seconds.", "20")] = 10
    store_calls_per_hour: Annotated[
        Positive, about("Calls of the other applications per store in any hour.", "500")
    ] = 100
    deadline_seconds: Annotated[Seconds, about("The time limit of a call, including all retries.", "60")] = 120.0
    stream_deadline_seconds: Annotated[Seconds, about("The time limit of a streamed chat answer.", "180")] = 300.0
    worker_concurrency: Annotated[Positive, about("Jobs that one worker runs concurrently.", "20")] = 10
    step_concurrency: Annotated[Positive, about("Steps of one job that run concurrently.", "2")] = 8
    takeover_seconds: Annotated[
        Seconds, about("A job whose worker sent no heartbeat for this long is taken over by another worker.", "60")
    ] = 15.0
    lost_after_seconds: Annotated[
        Seconds,
        about(
            "A call whose process sent no heartbeat for this long is closed as failed; its reserved tokens count as "
            "used.",
            "120",
        ),
    ] = 30.0
    drain_seconds: Annotated[
        Seconds,
        about(
            "How long running calls may continue after a stop signal. 10 s later the process ends in any case; a "
            "second signal ends it at once.",
            "5",
        ),
    ] = 30.0
    dimensions: Annotated[
        Names,
        about("The periods that the finance application is called for when a day's figures are ready.", '["today"]'),
    ] = (
        "today",
        "yesterday",
        "this_week",
        "last_week",
        "this_month",
        "last_month",
        "this_quarter",
        "last_quarter",
    )
    log_days: Annotated[Natural, about("Run logs older than this are deleted. 0: never.", "365")] = 0
    cache_rows: Annotated[Positive, about("Cached results that are stored per application.", "5000")] = 20_000


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server"""

    host: Annotated[
        Text, about("The address that the server listens on. By default only this machine can connect.", '"10.0.0.5"')
    ] = "127.0.0.1"
    port: Annotated[Port, about("The port of the server. 0: any free port.", "9000")] = 8317
    max_body_bytes: Annotated[Positive, about("A larger request is refused (1 MiB).", "262144")] = _MIB
    heartbeat_seconds: Annotated[
        Seconds, about("The interval of keep-alive messages on a stream without data.", "5")
    ] = 15.0
    client_timeout_seconds: Annotated[
        Seconds,
        about(
            "A client that needs longer to send the header of a request gets status 408 and is disconnected. The time "
            "for a body grows with what was received.",
            "5",
        ),
    ] = 20.0
    allowed_hosts: Annotated[
        HostNames,
        about(
            "Host names of the [console](console-access.md) in addition to this machine's own. A name with a port is "
            "valid for that port only.",
            '["trace.example.com"]',
        ),
    ] = ()
    login: Annotated[
        Login,
        about(
            '`"auto"`: on this machine the link of `agenttrace open` logs in, other machines need a password. '
            '`"always"`: every user needs a password. `"none"`: every user and program of this machine has access.',
            '"always"',
        ),
    ] = "auto"
    login_hours: Annotated[Hours, about("After this long a login to the console expires.", "12")] = 24 * 14


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Export"""

    quiet_seconds: Annotated[
        Seconds, about("A finished turn is exported when nothing was added to it for this long.", "5")
    ] = 30.0
    mask: Annotated[
        Patterns,
        about(
            "Regular expressions of your own secrets. Matches are masked before anything leaves the machine.",
            "['corp-[0-9a-f]{32}']",
        ),
    ] = ()


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Team: login by OpenID Connect"""

    issuer: Annotated[
        Url | None,
        about("The issuer of the provider. Without it there is no such login.", '"https://login.example.com"'),
    ] = None
    client_id: Annotated[Text | None, about("The client that the provider knows this server as.", '"agenttrace"')] = (
        None
    )
    client_secret: Annotated[
        Text | None,
        about("Its secret; none of a public client. Never shown.", '"…"', secret=True),
    ] = None
    title: Annotated[Text, about("The name of the provider on the login page.", '"Example SSO"')] = "OpenID Connect"
    scopes: Annotated[Names, about("What the provider is asked for.", '["openid", "email", "groups"]')] = (
        "openid",
        "email",
        "profile",
    )
    name_claim: Annotated[Text, about("The claim that becomes the name of the user.", '"preferred_username"')] = "email"
    domains: Annotated[
        Names, about("Only users with an e-mail address of these domains may log in. Empty: all.", '["example.com"]')
    ] = ()
    trust_email: Annotated[
        Switch,
        about("Accept e-mail addresses of which the provider does not say that they are verified.", "true"),
    ] = False
    groups_claim: Annotated[Text, about("The claim with the groups of the user.", '"roles"')] = "groups"
    roles: Annotated[
        Roles,
        about(
            "The roles of groups; of several the highest. Where there are any, the role is set anew at every login.",
            '{ "agenttrace-admins" = "admin", "engineering" = "member" }',
        ),
    ] = {}
    default_role: Annotated[
        NewRole,
        about('The role of a user in none of these groups. `"none"`: no login.', '"none"'),
    ] = "member"

    def __repr__(self) -> str:
        return f"OidcSettings(issuer={self.issuer!r}, client_id={self.client_id!r})"


class TeamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The team server"""

    name: Annotated[
        Text | None,
        about("The name of the team, of a server that stores the sessions of several machines.", '"Checkout"'),
    ] = None
    store: Annotated[
        Text | None,
        about(
            "Where [`agenttrace team serve`](team.md) stores the sessions of all machines: a file, or the URL of a "
            "ClickHouse database. Without it, `team.db` in the data directory. Never shown.",
            '"clickhouse://user@db/agenttrace"',
            secret=True,
        ),
    ] = None
    figures: Annotated[
        Figures,
        about(
            "Who sees figures of other persons' sessions on the [team's server](team-access.md). `\"admins\"`: others "
            "see sums of all sessions only.",
            '"admins"',
        ),
    ] = "everyone"
    max_rows_per_minute: Annotated[
        Natural,
        about(
            "Rows that one machine may send to a team's server in a minute; with more it is told to "
            "[wait](team.md#the-server), and loses nothing. 0: no limit.",
            "100_000",
        ),
    ] = 1_000_000
    max_mib_per_minute: Annotated[
        Natural,
        about("The same for MiB, as they are sent (compressed). 0: no limit.", "100"),
    ] = 2_000
    retention: Annotated[
        DaysByGlob,
        about(
            "On the team's server: the content of sessions in directories that match a glob is removed so many days "
            "after they ended; sums stay.",
            '{ "*/customers/*" = 30, "*" = 365 }',
        ),
    ] = {}
    oidc: OidcSettings = OidcSettings()

    def __repr__(self) -> str:
        return f"TeamSettings(name={self.name!r}, store={self.store and '***'!r})"


#: The tables of the file that hold settings, in the order of the documentation.
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "record": RecordSettings,
    "retention": RetentionSettings,
    "usage": UsageSettings,
    "database": DatabaseSettings,
    "jwt": JwtSettings,
    "run": RunSettings,
    "serve": ServeSettings,
    "export": ExportSettings,
    "team": TeamSettings,
    "team.oidc": OidcSettings,
}
