"""A client of obstore for an address, from the options of the user, the environment and, on S3, the profiles of AWS.

obstore itself reads the environment, such as AWS_ACCESS_KEY_ID, and fetches the credentials of a role. It does not know profiles,
so this module reads static keys from the files of AWS.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from lsmlake.errors import InvalidOption, LakeError
from lsmlake.extras import need
from lsmlake.storage.address import AZURE, GCS, S3, Address
from lsmlake.undo import pass_interruption

_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_headers",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
_TIMEOUTS = {"connect_timeout", "read_timeout", "timeout", "pool_idle_timeout"}
_RETRIES_MAX, _RETRY_TIMEOUT_S = 6, 60
_CLASSES = {S3: "S3Store", GCS: "GCSStore", AZURE: "AzureStore"}
_CONTAINERS = {S3: "bucket", GCS: "bucket", AZURE: "container_name"}
_ENDPOINTS = {S3: "endpoint", GCS: "base_url", AZURE: "endpoint"}
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ACCOUNT_VARIABLE = "AZURE_STORAGE_ACCOUNT_NAME"
_KEYS = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key", "aws_session_token": "session_token"}
_AWS = re.compile(r"(?:aws_)?(.*)", re.I)


class _Settings(NamedTuple):
    """`config`: the settings of the store. `client`: the settings of HTTP. `retry`: how requests are repeated."""

    config: dict[str, object]
    client: dict[str, object]
    retry: dict[str, object]


def client_of(address: Address, options: Mapping[str, object]) -> object:
    """A store of obstore, whose paths begin at the prefix of the address. Makes no request.

    Raises InvalidOption (the message names options, never values) and MissingDependency."""
    obstore = need("obstore.store", f"the address {address.url}")
    config, client, retry = _settings(address, options)
    try:
        store_class = getattr(obstore, _CLASSES[address.kind])
        return store_class(
            **{_CONTAINERS[address.kind]: address.container},
            prefix=address.prefix or None,
            config={name: value if isinstance(value, (str, bool)) else str(value) for name, value in config.items()},
            client_options=client,
            retry_config=retry,
        )
    except LakeError:
        raise
    except Exception as error:  # the text can hold values
        pass_interruption(error)
        unknown = re.search(r"[Cc]onfiguration key: '(\w+)'", str(error))
        cause = f"{unknown[1]!r}" if unknown else type(error).__name__
    raise InvalidOption(
        "a storage option is unknown" if unknown else "the storage options do not make a client",
        where=address.url,
        expected=f"the settings of obstore's {_CLASSES[address.kind]}",
        found=cause,
        cure="correct storage_options and the environment variables of the store",
    )


def texts_of(address: Address, options: Mapping[str, object]) -> dict[str, str]:
    """The settings of a store as text, for other programs that use the Rust package object_store. They hold secrets.

    Raises InvalidOption (the message names options, never values)."""
    config, client, retry = _settings(address, options)
    return {name: _text(value) for name, value in {**config, **client, **retry}.items()}


_VARIABLES = {
    "endpoint": _ENDPOINT_VARIABLES,
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
    "virtual_hosted_style_request": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
}
_KEY_SETTINGS = {"access_key_id", "secret_access_key", "session_token"}


def settings_of_s3(options: Mapping[str, object]) -> dict[str, str]:
    """The endpoint, region, keys and style of addresses of a store in S3, from the options of the user, a profile or the
    environment. All keys come from one place."""
    found = {_AWS.fullmatch(name)[1].lower(): _text(value) for name, value in _with_profile(options).items()}
    variables = {name: os.environ[one] for name, names in _VARIABLES.items() for one in names[::-1] if os.environ.get(one)}
    if "access_key_id" in found:
        variables = {name: value for name, value in variables.items() if name not in _KEY_SETTINGS}
    return {name: value for name, value in {**variables, **found}.items() if name in _VARIABLES}


def _text(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.0f}s"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(address: Address, options: Mapping[str, object]) -> _Settings:
    config, client, retry = dict(options), {}, {"max_retries": _RETRIES_MAX, "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT_S)}
    for name in [name for name in config if name in _CLIENT]:
        client[name] = _duration(name, config.pop(name)) if name in _TIMEOUTS else config.pop(name)
    if "max_retries" in config:
        retry["max_retries"] = config.pop("max_retries")
    if "retry_timeout" in config:
        retry["retry_timeout"] = timedelta(seconds=_seconds("retry_timeout", config.pop("retry_timeout")))
    if address.kind == S3:
        _check_listing(config)
        config = _with_profile(config)
    if address.kind == GCS and "endpoint" in config:
        config["base_url"] = config.pop("endpoint")
    if address.kind == AZURE and not any(name.lower().endswith("account_name") for name in config):
        account = address.account or os.environ.get(_ACCOUNT_VARIABLE)  # obstore does not report an account from the environment
        config |= {"account_name": account} if account else {}
    endpoint = config.get(_ENDPOINTS[address.kind]) or (_endpoint_of_environment() if address.kind == S3 else None)
    if endpoint and _is_loopback(str(endpoint)):
        client.setdefault("allow_http", True)
    return _Settings(config, client, retry)


def _check_listing(config: Mapping[str, object]) -> None:
    if any(name.lower().removeprefix("aws_") == "s3_express" for name in config):
        raise InvalidOption(
            "directory buckets are not supported",
            where="storage option 's3_express'",
            expected="a bucket whose listings are in order",
            cure="use a general purpose bucket",
        )


def _duration(name: str, value: object) -> str:
    return value if isinstance(value, str) else f"{round(1000 * _seconds(name, value))}ms"


def _seconds(name: str, value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    raise InvalidOption("not a number of seconds", where=f"storage option {name!r}", found=type(value).__name__, cure="give one")


def _endpoint_of_environment() -> str | None:
    return next((os.environ[name] for name in _ENDPOINT_VARIABLES if os.environ.get(name)), None)


def _is_loopback(endpoint: str) -> bool:
    try:
        host = urlsplit(endpoint).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _with_profile(config: Mapping[str, object]) -> dict[str, object]:
    """Adds the keys of an AWS profile to the settings, if the options name a profile, or if neither options nor environment have
    keys and the user has a profile. Raises InvalidOption if the named profile has no static keys."""
    named = config.get("profile") or os.environ.get("AWS_PROFILE")
    config = {name: value for name, value in config.items() if name != "profile"}
    given = {_AWS.fullmatch(name)[1].lower() for name in config}
    if given & {"access_key_id", "skip_signature"} or (os.environ.get("AWS_ACCESS_KEY_ID") and not named):
        return config
    profile = str(named or os.environ.get("AWS_DEFAULT_PROFILE") or "default")
    keys = _profile(profile)
    if named and "access_key_id" not in keys:
        raise InvalidOption(
            "the AWS profile has no static keys",
            where=f"profile {profile!r}",
            expected="aws_access_key_id and aws_secret_access_key in the credentials file",
            cure="for other kinds run `aws configure export-credentials --format env`, and set the variables that it prints",
        )
    return {**keys, **config} if "access_key_id" in keys else config


def _profile(name: str) -> dict[str, str]:
    home = Path.home() / ".aws"
    settings: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.environ.get(variable) or home / file, encoding="utf-8")
        except (configparser.Error, UnicodeError):
            continue
        if parser.has_section(section):
            settings.update(parser.items(section))
    keys = {ours: settings[name] for name, ours in _KEYS.items() if name in settings}
    if "region" in settings and not os.environ.get("AWS_REGION"):
        keys["region"] = settings["region"]
    if "endpoint_url" in settings and _endpoint_of_environment() is None:
        keys["endpoint"] = settings["endpoint_url"]
    return keys
