"""The version of the adapter, which dbt reads by this name."""

from lsmlake import __version__ as version

__all__ = ["version"]
