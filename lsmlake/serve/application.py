"""The HTTP application: the routes of all rooms behind one guard.

Everything but `request_guard.OPEN_PATHS` and the files in `request_guard.OPEN_FOLDER` needs the token, if there is one. Routes
are plain functions, which Starlette calls in threads, because verbs of a lake read files.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lsmlake import __version__
from lsmlake.api.lake import Lake
from lsmlake.api.metrics import Metrics
from lsmlake.errors import LakeError
from lsmlake.serve.http_error import error_response
from lsmlake.serve.page.routes import page_routes
from lsmlake.serve.request_guard import RequestGuard
from lsmlake.serve.rest_catalog.catalog_routes import catalog_routes
from lsmlake.serve.serve_settings import ServeSettings


def application(lake: Lake, settings: ServeSettings, metrics: Metrics | None = None) -> Starlette:
    """The application that serves a lake. `metrics`: those of a maintainer in this process.

    Raises:
        MissingDependency: prometheus_client is not installed.
        InvalidQuery: credentials of the store should be passed on, and there are none.
    """
    app = Starlette(
        routes=[*_own_routes(metrics or Metrics(lake)), *catalog_routes(lake, settings), *page_routes(lake, settings)],
        middleware=[Middleware(RequestGuard, settings=settings)],
        exception_handlers={HTTPException: _refused, LakeError: _failed},
    )
    app.router.redirect_slashes = False
    return app


def _own_routes(metrics: Metrics) -> list[Route]:
    def health(request: Request) -> Response:
        """Whether the server answers."""
        return JSONResponse({"status": "ok", "version": __version__})

    def show_metrics(request: Request) -> Response:
        """The metrics of all tables, for Prometheus."""
        if name := next(iter(request.query_params), None):
            return error_response(400, "BadRequestException", f"the parameter {name!r} is not obeyed; leave it out")
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    return [Route("/health", health), Route("/metrics", show_metrics)]


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kinds = {404: "NotFoundException", 405: "MethodNotAllowedException"}
    headers = dict(error.headers or {})
    return error_response(error.status_code, kinds.get(error.status_code, "BadRequestException"), error.detail, headers)


def _failed(request: Request, error: Exception) -> Response:
    return error_response(500, type(error).__name__, str(error))
