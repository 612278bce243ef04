"""moto's server, for AWS Glue: Glue updates a table only if it has the version that the request names, which moto 5.2 ignores."""

from __future__ import annotations

import sys
from threading import Lock

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse
from moto.server import main

ONE_BY_ONE = Lock()


def updated(response: GlueResponse, update=GlueResponse.update_table) -> ActionResult:
    name, version = response.parameters["TableInput"]["Name"], response.parameters.get("VersionId")
    with ONE_BY_ONE:
        table = response.glue_backend.get_table(response.parameters["DatabaseName"], name)
        if version not in (None, table.as_dict()["VersionId"]):
            raise JsonRESTError("ConcurrentModificationException", f"version {version} of the table is not the newest one")
        return update(response)


GlueResponse.update_table = updated
main(sys.argv[1:])
