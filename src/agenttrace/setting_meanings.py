"""What each setting means, in the words of docs/configuration.md; the console shows them beside the values."""

from __future__ import annotations

#: By full name; a test holds it together with the settings there are and with the documentation.
MEANINGS = {
    "home": "The data directory. Created for its owner alone (0700).",
    "record.paths": "Files, directories or globs to record besides the agents' own homes.",
    "record.agents": "The agents to record; empty means all.",
    "record.exclude": "Globs of paths that are never read.",
    "record.batch_lines": "The most lines in one transaction.",
    "record.batch_bytes": (
        "The most bytes in one transaction (32 MiB), but for a single longer line; logs are read 1 MiB at a time."
    ),
    "record.batch_seconds": "What was read is written after this long at the latest, however few lines it is.",
    "record.poll_seconds": "How often files are looked at when no change was reported.",
    "record.idle_close_seconds": "How long a rotated file is kept open for what is still written to it.",
    "record.max_line_bytes": "A longer line (32 MiB) is quarantined, not loaded.",
    "record.max_unpacked_bytes": "Of a compressed log this much is read (2 GiB unpacked); the rest is refused.",
    "record.quarantine_lines_per_file": "Lines of one file that wait in quarantine; further ones are only counted.",
    "record.quarantine_lines": "Lines of all files that wait in quarantine; further ones are only counted.",
    "record.follow_symlinks": "Whether links in watched directories are followed out of them.",
    "record.workers": "Processes for a large first import; 0 means one for each core.",
    "record.stale_minutes": "A working session silent for this long counts as interrupted.",
    "retention.days": "Sessions silent for longer lose what they said; tokens and cost stay. 0 means never.",
    "usage.timezone": 'Where a day begins, also today\'s: "local" or an IANA name.',
    "usage.currency": (
        '"native": each cost in the currency of its price; "USD" or "CNY": converted, if there is a rate.'
    ),
    "usage.exchange_rate": (
        "Yuan for one dollar. Without it amounts in different currencies are shown apart, never added."
    ),
    "database.url": (
        "A PostgreSQL (15 or newer) for jobs, run logs and guards. Without it, one of our own runs under the "
        "data directory. Never shown."
    ),
    "jwt.secret": (
        "Signs the bearer tokens of chat users (HS256). At least 32 characters. Without it the chat is "
        "closed. Never shown."
    ),
    "run.timezone": (
        "Where a business day begins: budgets, cache expiry and duplicates go by it. The same on all machines."
    ),
    "run.daily_tokens": "Tokens a day; calls that would go beyond are refused.",
    "run.monthly_tokens": "Tokens a calendar month; calls that would go beyond are refused.",
    "run.max_call_tokens": (
        "The most that one call can take beside its prompt, unless the application has max_tokens of its own. While"
        " less is left of the budget than the calls under way can take, calls pass one at a time."
    ),
    "run.failure_threshold": "Consecutive failures that open an application's breaker.",
    "run.recovery_seconds": "How long a breaker stays open before one probe is let through.",
    "run.retries": "How often a call that failed is tried again, before anything of its answer was passed on.",
    "run.retry_seconds": "The pause before the first of these attempts; each further one is twice as long.",
    "run.user_calls_per_minute": "Chat messages of one user in any 60 seconds.",
    "run.store_calls_per_hour": "Calls of the other applications for one store in any hour.",
    "run.deadline_seconds": "The most that a call may take, all attempts together.",
    "run.stream_deadline_seconds": "The most that a chat answer may take.",
    "run.worker_concurrency": "Jobs that one worker runs at the same time.",
    "run.step_concurrency": "Steps of one job that run at the same time.",
    "run.takeover_seconds": "A job whose worker was silent for this long is taken over by another.",
    "run.lost_after_seconds": (
        "A call whose process was silent for this long is closed as failed; what it had reserved counts as used."
    ),
    "run.drain_seconds": (
        "How long running calls may go on after a stop signal. 10 s after that the process ends, whatever it is doing; "
        "a second signal ends it at once."
    ),
    "run.dimensions": "What the finance application is asked for when the day's figures are ready.",
    "run.log_days": "Run logs older than this are removed; 0 means never.",
    "run.cache_rows": "Cached results kept for each application.",
    "serve.host": "Where the server listens; on this machine alone unless you say otherwise.",
    "serve.port": "The server's port; 0 takes any free one.",
    "serve.max_body_bytes": "A larger request is refused (1 MiB).",
    "serve.heartbeat_seconds": "How often a silent stream says that it is alive.",
    "serve.client_timeout_seconds": (
        "A client that takes longer to send the header of a request is answered with 408 and disconnected. A body gets "
        "more time the more of it arrives."
    ),
    "serve.allowed_hosts": (
        "Names, besides this machine's own, that the console answers to; with a port only on that one."
    ),
    "serve.login": '"auto": on this machine the link of agenttrace open lets in, from elsewhere a login; "always": '
    'everybody logs in by name and password; "none": every user and program of this machine gets in.',
    "serve.login_hours": "How long a login to the console holds.",
    "export.quiet_seconds": "A turn that is over is sent once nothing more was written about it for this long.",
    "export.mask": "Regular expressions of secrets of your own; what matches is masked before anything leaves.",
}
