"""Request bodies: JSON, checked against a model, with every mistake named; read after the caller was checked."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from agenttrace.nesting import MOST_DEPTH, is_too_deep
from agenttrace.serve.problems import ProblemError, described

Model = TypeVar("Model", bound=BaseModel)


class StrictModel(BaseModel):
    """A body or a query that may have no other fields."""

    model_config = ConfigDict(extra="forbid")


async def read_body(request: Request, model: type[Model]) -> Model:
    """The body as a model: 400 where it is no JSON, 422 where it is not the right one."""
    try:
        value = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProblemError(400, f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    # Before the model, which copies what it checks, level by level.
    if is_too_deep(value):
        raise _too_deep()
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ProblemError(422, described(error.errors())) from None


def _too_deep() -> ProblemError:
    return ProblemError(422, f"Objects and lists in the body are nested more than {MOST_DEPTH} deep.")


def documented_body(model: type[BaseModel], *examples: dict[str, Any]) -> dict[str, Any]:
    """The body in the OpenAPI document, for a handler that reads it itself."""
    content = {
        "schema": model.model_json_schema(),
        "examples": {f"example {number}": {"value": example} for number, example in enumerate(examples, 1)},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
