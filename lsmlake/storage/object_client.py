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

from lsmlake.errors import InvalidOption
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
_ENDPOINT = re.compile(r"(?:(?:aws|azure|google)_)?(?:(?:storage_)?endpoint(?:_url)?|base_url)", re.I)
_URL = re.compile(r"https?://[^/?#\s]+", re.I)
_AWS = re.compile(r"(?:aws_)?(.*)", re.I)


class _Settings(NamedTuple):
    """`config`: the settings of the store. `client`: the settings of HTTP. `retry`: how requests are repeated."""

    config: dict[str, object]
    client: dict[str, object]
    retry: dict[str, object]


def client_of(address: Address, options: Mapping[str, object]) -> object:
    """A store of obstore, whose paths begin at the prefix of the address. Makes no request.

    Raises InvalidOption (the message names options, never values) and MissingDependency."""
    need("obstore.store", f"the address {address.url}")
    client, fault = _client_or_fault(address, _settings(address, options))
    if client is not None:
        return client
    names = [fault.unknown] if fault.unknown else _unfit(address, options)
    if fault.unknown:
        what = "a storage option is unknown"
    else:
        what = "a storage option does not fit" if names else "the storage options do not make a client"
    raise InvalidOption(
        what,
        where=address.url,
        expected=f"the settings of obstore's {_CLASSES[address.kind]}",
        found=" or ".join(map(repr, names)) if names else fault.kind,
        cure="correct storage_options and the environment variables of the store",
    )


class _Fault(NamedTuple):
    """Why obstore makes no client: the kind of its error, and the name of a setting that it does not know. The text of the error
    can hold values."""

    kind: str
    unknown: str | None


def _client_or_fault(address: Address, settings: _Settings) -> tuple[object, _Fault | None]:
    obstore = need("obstore.store", f"the address {address.url}")
    config = {name: value if isinstance(value, (str, bool)) else str(value) for name, value in settings.config.items()}
    try:
        store_class = getattr(obstore, _CLASSES[address.kind])
        client = store_class(
            **{_CONTAINERS[address.kind]: address.container},
            prefix=address.prefix or None,
            config=config,
            client_options=settings.client,
            retry_config=settings.retry,
        )
    except Exception as error:
        pass_interruption(error)
        unknown = re.search(r"[Cc]onfiguration key: '([^']*)'", str(error))
        return None, _Fault(type(error).__name__, unknown[1] if unknown and unknown[1] in config else None)
    return client, None


def _unfit(address: Address, options: Mapping[str, object]) -> list[str]:
    """The options of a user without any one of which obstore makes a client: their values do not fit, or exclude each other."""
    less = {left_out: {name: value for name, value in options.items() if name != left_out} for left_out in options}
    return [name for name, rest in less.items() if _client_or_fault(address, _settings(address, rest))[0] is not None]


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
    _check_values(options)
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
        if "base_url" in config:
            raise _refused("endpoint", "it is another name of 'base_url', which is given, too", cure="leave one of them out")
        config["base_url"] = config.pop("endpoint")
    if address.account:
        _check_account(config, address.account)
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


def _check_account(config: Mapping[str, object], account: str) -> None:
    """Raises InvalidOption if the settings name another account of Azure than the address does."""
    for name in config:
        if name.lower().endswith("account_name") and config[name] != account:
            what, cure = "the address names another account", "leave the option out, or correct the address"
            raise _refused(name, what, expected=repr(account), found=repr(config[name]), cure=cure)


def _check_values(options: Mapping[str, object]) -> None:
    """Raises InvalidOption for a value that is no setting, whatever the name. obstore would get its text, such as "None"."""
    for name, value in options.items():
        if value is None:
            raise _refused(name, "there is no value", cure="leave the option out, or correct the program that computes it")
        if name not in _CLIENT and not isinstance(value, (str, bool, int, float)):
            expected, found = "text, a number, True or False", type(value).__name__
            raise _refused(name, "the value has the wrong type", expected=expected, found=found, cure="correct it")
        if _ENDPOINT.fullmatch(name) and not _URL.match(str(value)):
            raise _refused(name, "not the address of a server", expected="such as https://localhost:9000", cure="correct it")


def _refused(name: str, what: str, **rest: str) -> InvalidOption:
    return InvalidOption(what, where=f"storage option {name!r}", **rest)


def _duration(name: str, value: object) -> str:
    return value if isinstance(value, str) else f"{round(1000 * _seconds(name, value))}ms"


def _seconds(name: str, value: object) -> float:
    try:
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise _refused(name, "not a number of seconds", found=type(value).__name__, cure="give one")


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
