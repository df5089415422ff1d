"""CozeLoop, by its OTLP endpoint.

It also has its own endpoint (``/v1/loop/traces/ingest``, which its SDK uses). OTLP is documented, accepts gzip, reports
how many spans were refused, and needs no second encoding.

From its documents and its source (coze-dev/coze-loop): spans go into a queue, and later into tables that store them as
often as they are sent, while reading shows each once, so that only totals would be wrong. Hence each is sent once, and
read back after a doubt. A span that began more than 24 hours ago, or more than one hour from now, is dropped behind the
200 without an error: it is refused here instead.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agenttrace.destinations import DestinationSettings, shown_address
from agenttrace.export import conventions as c
from agenttrace.export.cozeloop_spans import described
from agenttrace.export.destination import Delivery, Verdict
from agenttrace.export.genai import GenAiSpan
from agenttrace.export.otlp import OtlpSender
from agenttrace.export.posting import HttpAnswer, line_of, problem, reason_of
from agenttrace.export.span import ExportSpan, by_trace
from agenttrace.export.wire_text import json_bytes, object_of, shortened

CLOUD = "https://api.coze.cn"
TRACES_PATH = "/v1/loop/opentelemetry/v1/traces"
TREE_PATH = "/v1/loop/traces/search_tree"
#: The limit of its own endpoint for one request; the OTLP endpoint documents none.
MOST_SPANS = 100
#: Seconds until an accepted span can be read: it waits in a queue first.
SETTLED_AFTER = 60.0

_HOUR = 3600 * 1_000_000
#: Time until the server handles a request.
_MARGIN = 300 * 1_000_000
_OLD = "CozeLoop accepts only spans that began within 24 hours of being sent"
_FUTURE = "CozeLoop accepts no spans that begin more than an hour from now; check the clock"
#: Spans in one answer when a trace is read.
_PAGE = 1_000

#: Its error codes (backend/modules/observability/pkg/errno); the short ones are of Coze's gateway.
_RATE_LIMIT = (600900205, 4013)
#: No permission, no capacity left, account not available; a key that is wrong or has not enough rights.
_BLOCKED = (600900101, 600903230, 600903231, 4100, 4101)
_INTERNAL = (*range(600900700, 600900900), 600904004, 600904006)
_NO_CAPACITY = "TraceNoCapacityAvailable"


class CozeLoopDestination(OtlpSender):
    """Sends to one workspace."""

    ignores_repeats = False
    accepted_is_stored = True

    def __init__(
        self,
        settings: DestinationSettings,
        *,
        settled_after: float = SETTLED_AFTER,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._base = base_url(settings.url or CLOUD)
        self._workspace = (settings.project or "").strip()
        keys = {"Authorization": f"Bearer {(settings.api_key or '').strip()}", "cozeloop-workspace-id": self._workspace}
        super().__init__(settings, self._base + TRACES_PATH, keys)
        self._clock = clock
        self._settled_after = settled_after
        self.max_spans = min(settings.batch_spans, MOST_SPANS)
        #: False once the server answers that the key may not read.
        self.can_read_back = True

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request, without those that the server would drop."""
        if not self._workspace.isdigit():
            return Delivery(verdict="blocked", reason=self._wrong_workspace())
        dropped = self._dropped(spans)
        rest = [span for span in spans if span.span_id not in dropped]
        delivery = (await self._post(rest))[1] if rest else Delivery(verdict="accepted")
        if delivery.verdict != "accepted" or not dropped:
            return delivery
        return msgspec.structs.replace(delivery, rejected=dropped)

    def _dropped(self, spans: Sequence[ExportSpan]) -> Mapping[bytes, str]:
        now = int(self._clock() * 1_000_000)
        oldest, newest = now - 24 * _HOUR + _MARGIN, now + _HOUR - _MARGIN
        found = {span.span_id: _OLD for span in spans if span.start < oldest}
        return found | {span.span_id: _FUTURE for span in spans if span.start > newest}

    def _described(self, span: ExportSpan) -> GenAiSpan:
        return described(span, self._settings.user)

    def _resource(self) -> dict[str, str]:
        environment = self._settings.environment
        return {c.DEPLOYMENT_ENVIRONMENT: shortened(environment)} if environment else {}

    def _meaning(self, answer: HttpAnswer, delivery: Delivery, sent: int) -> Delivery:
        """What the body of an answer adds to its status: an error code, or how many spans it refuses."""
        said = object_of(answer.body)
        verdict = _verdict_of(said, delivery.verdict)
        if verdict != "accepted":
            broke_down = verdict == "unknown"
            return msgspec.structs.replace(delivery, verdict=verdict, reason=reason_of(answer), broke_down=broke_down)
        rejected, reason = _rejected(answer, said)
        if not rejected:
            return delivery
        if rejected >= sent > 0:
            # Nothing was accepted: the quota is used up, or the queue behind the server is down.
            blocked: Verdict = "blocked" if _NO_CAPACITY in reason else "retry"
            return msgspec.structs.replace(delivery, verdict=blocked, reason=reason)
        return msgspec.structs.replace(delivery, reason=reason, rejected_count=rejected)

    # -- reading back -----------------------------------------------------------------------------------------

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans can be read there; None also while the others may still appear."""
        found: set[bytes] = set()
        for part in by_trace(spans).values():
            listed = await self._listed(part)
            if listed is None:
                return None
            found |= {span.span_id for span in part if span.span_id.hex() in listed}
        settled = time.monotonic() - self._doubt_at >= self._settled_after
        return found if settled or len(found) == len(spans) else None

    async def _listed(self, spans: Sequence[ExportSpan]) -> Set[str] | None:
        """The ids of a trace's spans in the period of these, without their texts."""
        question = {
            "workspace_id": self._workspace,
            "trace_id": spans[0].trace_id.hex(),
            "start_time": str(min(span.start for span in spans) // 1_000 - 1_000),
            "end_time": str(max(span.start for span in spans) // 1_000 + 1_000),
            "limit": _PAGE,
        }
        url, headers = self._base + TREE_PATH, {"Content-Type": "application/json"}
        answer, delivery = await self._poster.post(url, json_bytes(question), headers, compress=False)
        if answer is None:
            return None
        said = object_of(answer.body)
        verdict = _verdict_of(said, delivery.verdict)
        if verdict in ("blocked", "refused"):
            # A key that may write is not always allowed to read; from now on the user decides.
            self.can_read_back = False
        listed = object_of(said.get("data")).get("spans")
        if verdict != "accepted" or not isinstance(listed, list) or len(listed) >= _PAGE:
            return None
        return {str(object_of(each).get("span_id")) for each in listed}

    # -- checking ---------------------------------------------------------------------------------------------

    async def check(self) -> str:
        """Send a request without spans: the server checks address and key, and stores nothing."""
        if not self._workspace.isdigit():
            return self._wrong_workspace()
        answer, delivery = await self._poster.post(self._url, _NO_SPANS, self.headers)
        if answer is not None:
            delivery = self._meaning(answer, delivery, 0)
        if delivery.verdict == "accepted":
            return ""
        key = f"api_key, which must be allowed to upload traces to workspace {self._workspace}"
        if answer is not None and answer.status == 200 and delivery.verdict == "blocked":
            return f"it accepts nothing from this key ({delivery.reason}). Check {key}, and project."
        address = f"url: it must be the address of a CozeLoop, and is {shown_address(self._base)}"
        return problem(answer, delivery, key=key, address=address)

    def _wrong_workspace(self) -> str:
        return f"project must be the number of a workspace, as in the console's address, and is {self._workspace!r}"


#: A request with a resource and no spans: an empty body would be refused.
_NO_SPANS = b"\x0a\x00"


def base_url(url: str) -> str:
    """The address of the server, also where the setting is that of its OTLP endpoint."""
    return url.rstrip("/").removesuffix(TRACES_PATH).removesuffix("/v1/loop/opentelemetry").rstrip("/")


def _verdict_of(said: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """Errors have a code in the body, and often status 200."""
    code = said.get("code")
    if not isinstance(code, int) or code == 0:
        return verdict
    if code in _RATE_LIMIT:
        return "retry"
    if code in _BLOCKED:
        return "blocked"
    if code in _INTERNAL:
        return "unknown"
    return verdict if verdict != "accepted" else "refused"


def _rejected(answer: HttpAnswer, said: Mapping[str, Any]) -> tuple[int, str]:
    """How many spans were refused, and why; a self-hosted server wraps the message in JSON."""
    found = ExportTraceServiceResponse()
    try:
        wrapped = said.get("body")
        found.ParseFromString(base64.b64decode(wrapped) if isinstance(wrapped, str) else answer.body)
    except (DecodeError, binascii.Error, ValueError):
        return 0, ""
    refused = found.partial_success
    return max(refused.rejected_spans, 0), line_of(answer, refused.error_message)
