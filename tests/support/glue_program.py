"""moto's server, for AWS Glue, with two checks of Glue that moto 5.2 lacks: an update names the version of the table that it
replaces, and comments of columns are short lines."""

from __future__ import annotations

import re
import sys
from threading import Lock

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse
from moto.server import main

ONE_BY_ONE = Lock()
COMMENT = re.compile(r"[^\x00-\x08\x0a-\x1f]{0,255}")
"""As the service description in boto3 has it."""


def checked(response: GlueResponse) -> None:
    for place, column in enumerate(response.parameters["TableInput"]["StorageDescriptor"]["Columns"], 1):
        if not COMMENT.fullmatch(column.get("Comment", "")):
            member = f"'tableInput.storageDescriptor.columns.{place}.member.comment'"
            raise JsonRESTError(
                "ValidationException", f"1 validation error detected: Value at {member} failed to satisfy constraint"
            )


def created(response: GlueResponse, create=GlueResponse.create_table) -> ActionResult:
    checked(response)
    return create(response)


def updated(response: GlueResponse, update=GlueResponse.update_table) -> ActionResult:
    checked(response)
    name, version = response.parameters["TableInput"]["Name"], response.parameters.get("VersionId")
    with ONE_BY_ONE:
        table = response.glue_backend.get_table(response.parameters["DatabaseName"], name)
        if version not in (None, table.as_dict()["VersionId"]):
            raise JsonRESTError("ConcurrentModificationException", f"version {version} of the table is not the newest one")
        return update(response)


GlueResponse.create_table, GlueResponse.update_table = created, updated
main(sys.argv[1:])
