"""``agenttrace trigger``: send an event to a running server, as an ETL job would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agenttrace.cli import output
from agenttrace.cli.asking import STYLES
from agenttrace.cli.errors import FAILED, UsageError
from agenttrace.cli.options import AsJson

if TYPE_CHECKING:
    from agenttrace.client import TriggerResult

EPILOG = """
  agenttrace trigger consumption --site 1 --member 2
  agenttrace trigger note_created --site 1 --member 2 --payload @note.json
  agenttrace trigger dws_completed --site 1 --wait
  agenttrace trigger consumption --site 1 --member 2 --forced   run it again

An event runs once for each site, member and day; a second trigger is answered with skipped_duplicate, unless it is
forced. The token is read from INTERNAL_API_TOKEN.
"""

_PAYLOAD_FIX = "Give a JSON object, or @ and a file with one (@- reads standard input)."


def trigger(
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="consumption, note_created, task_assigned, dws_completed, or one of your catalog."
        ),
    ],
    site: Annotated[int, typer.Option(min=1, metavar="ID", help="The store of the event.")],
    member: Annotated[int | None, typer.Option(min=0, metavar="ID", help="The member of the event.")] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON|@FILE", help="The payload, a JSON object.")] = None,
    connector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The connector of the event.", show_default="the catalog's"),
    ] = None,
    forced: Annotated[bool, typer.Option("--forced", help="Run even if the same event ran today.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job has ended; exit code 1 if it failed.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="The longest time to wait.")] = 300.0,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server.", show_default="AGENTTRACE_URL or http://127.0.0.1:8317"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Trigger an event on a running server, which runs the chain of applications for it."""
    from agenttrace.client import TriggerClient

    data = read_payload(payload)
    with TriggerClient(url) as client:
        result = client.trigger(event, site, member, data, connector, forced)
        if not as_json:
            _show_result(result)
        job = client.wait(result.working_job_id, timeout) if wait else None
    if as_json:
        fields = ("trigger_job_id", "status", "duplicate_of")
        answer = {name: getattr(result, name) for name in fields}
        output.print_json(answer if job is None else {**answer, "job": job})
    if job is not None:
        _end(job, as_json)


def read_payload(text: str | None) -> dict[str, Any] | None:
    """The object that was given, or the one in the file that was named."""
    if text is None:
        return None
    try:
        data = _file(text[1:]) if text.startswith("@") else text.encode()
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(f"the payload is no JSON: {error}", _PAYLOAD_FIX) from None
    if not isinstance(value, dict):
        raise UsageError("the payload is no JSON object", _PAYLOAD_FIX)
    return value


def _file(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"the payload cannot be read: {name}: {error.strerror}", _PAYLOAD_FIX) from error


def _show_result(result: TriggerResult) -> None:
    if result.status == "skipped_duplicate":
        first = f"job {result.duplicate_of}" if result.duplicate_of else "another job"
        output.say(f"Job {result.trigger_job_id} is skipped as a duplicate of {first}. Run it again with --forced.")
    else:
        output.say(f"Job {result.trigger_job_id} is {result.status}.")
        output.note(f"Next: agenttrace jobs {result.trigger_job_id}")


def _end(job: dict[str, Any], as_json: bool) -> None:
    from agenttrace.client import GOOD

    status = str(job.get("status"))
    if not as_json:
        reason = f": {job['error_message']}" if job.get("error_message") else "."
        output.say(f"Job {job.get('id')} is {status}{reason}", STYLES.get(status, ""))
    if status not in GOOD:
        raise typer.Exit(FAILED)
