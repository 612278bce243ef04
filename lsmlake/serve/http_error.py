"""Errors as answers of HTTP, all in the form of the Iceberg REST catalog: {"error": {"message", "type", "code"}}."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


def error_response(code: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer that says what went wrong. `kind`: the name of an exception of the specification."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": code}}, code, headers)
