"""Everything that can go wrong with a call to an LLM application, whichever provider it has.

::

    DashScopeError
    ├── DashScopeApiError            the application answered with an error, or not at all; retries are used up
    │   ├── DashScopeAuthError       the key is refused (HTTP 401; 403 by OpenAI-compatible endpoints)
    │   └── DashScopeTimeoutError    no answer in time
    ├── DashScopeJsonParseError      the answer is not the JSON object it has to be; retries are used up
    ├── AppNotConfiguredError        refused here: variables of the application are not set
    ├── CircuitOpenError             refused here: the application failed too often
    ├── RateLimitExceededError       refused here: too many calls in the window
    └── BudgetExceededError          refused here: the tokens of the day or month are spent

No message ever holds a key, a token or a prompt.
"""

from __future__ import annotations


class DashScopeError(Exception):
    """A call to an application did not give a result."""

    #: The status that the run log gets.
    status = "failed"
    #: Tokens that the provider has billed all the same, over all attempts.
    tokens_used: int = 0
    #: How often the application was called.
    attempts: int = 0


class DashScopeApiError(DashScopeError):
    """The application answered with an error, or could not be reached."""

    def __init__(
        self,
        message: str,
        status_code: int | None = None,
        *,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        #: The HTTP status, or the one named inside a stream; None when there was no answer.
        self.status_code = status_code
        #: The provider's own code, such as ``Throttling.RateQuota`` or ``context_length_exceeded``.
        self.code = code
        self.request_id = request_id
        #: Seconds that the server asked us to wait.
        self.retry_after = retry_after


class DashScopeAuthError(DashScopeApiError):
    """The key is refused: nothing will work until the configuration is put right."""


class DashScopeTimeoutError(DashScopeApiError):
    """No answer in time."""

    status = "timeout"


class DashScopeJsonParseError(DashScopeError):
    """The answer is not a JSON object; it is asked for again, never repaired."""


class AppNotConfiguredError(DashScopeError):
    """Variables of the application are not set, so it cannot be called."""


class _RefusedForNowError(DashScopeError):
    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        #: Seconds until a call may be let through.
        self.retry_after = retry_after


class CircuitOpenError(_RefusedForNowError):
    """The application failed too often; it is not called for a while."""

    status = "circuit_open"


class RateLimitExceededError(_RefusedForNowError):
    """Too many calls in the window."""

    status = "rate_limited"


class BudgetExceededError(DashScopeError):
    """The tokens of the day or the month are spent, or held by calls under way for too long."""

    status = "budget_exceeded"

    def __init__(self, message: str, *, reason: str = "daily_exceeded") -> None:
        super().__init__(message)
        #: ``daily_exceeded`` or ``monthly_exceeded``; ``daily_busy`` or ``monthly_busy`` if only its turn did not come.
        self.reason = reason

    @property
    def is_busy(self) -> bool:
        """Something is left; other calls hold it."""
        return self.reason.endswith("_busy")
