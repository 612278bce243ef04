"""What clients need to read the files of an object store, as properties of Iceberg's file input: the endpoint and the region, and
on request the keys. Clients read files without this server."""

from __future__ import annotations

from lsmlake.errors import InvalidQuery, Wording
from lsmlake.storage.storage import Storage

_PLACES = {"endpoint": ("s3.endpoint",), "region": ("s3.region", "client.region")}
_SECRETS = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
}


def reader_properties(storage: Storage) -> dict[str, str]:
    """The properties that are no secrets."""
    settings = storage.reader_settings()
    found = {name: settings[key] for key, names in _PLACES.items() if key in settings for name in names}
    path_style = settings.get("virtual_hosted_style_request", "false") != "true"
    return {**found, "s3.path-style-access": "true"} if "endpoint" in settings and path_style else found


def secrets_of(storage: Storage) -> dict[str, str]:
    """The keys of the store. Raises InvalidQuery if there are none that could be passed on."""
    settings = storage.reader_settings()
    found = {name: settings[key] for key, name in _SECRETS.items() if key in settings}
    if len(found) < 2:
        raise InvalidQuery(
            "there are no credentials to pass on",
            where=repr(storage),
            expected="a warehouse in S3, with the keys in the environment or in a profile",
            cure=Wording("do not pass credentials", command="leave --pass-credentials out"),
        )
    return found
