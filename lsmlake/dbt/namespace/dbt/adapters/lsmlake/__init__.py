"""The adapter under the name by which dbt looks for it."""

from dbt.adapters.base import AdapterPlugin
from dbt.include.lsmlake import PACKAGE_PATH

from lsmlake.dbt.dbt_adapter import LsmlakeAdapter
from lsmlake.dbt.profile import LsmlakeCredentials

Plugin = AdapterPlugin(adapter=LsmlakeAdapter, credentials=LsmlakeCredentials, include_path=PACKAGE_PATH)
