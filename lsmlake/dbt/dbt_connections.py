"""The connections of dbt's threads. A statement is one commit, so transactions do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError

from lsmlake.dbt.cursor import LakeCursor, LakeHandle
from lsmlake.errors import LakeError


class LsmlakeConnectionManager(SQLConnectionManager):
    """Opens lakes and turns their errors into those of dbt."""

    TYPE = "lsmlake"

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turns an error of the lake into one of dbt, which ends the model and not the run."""
        try:
            yield
        except LakeError as error:
            raise DbtDatabaseError(str(error.for_sql())) from error

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Opens the lake of a connection, unless it is open."""
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            connection.handle = LakeHandle(connection.credentials.connect())
        except LakeError as error:
            connection.state = ConnectionState.FAIL
            raise FailedToConnectError(str(error)) from error
        connection.state = ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None:
        """Never called: see `LsmlakeAdapter.is_cancelable`."""
        raise NotImplementedError("a statement of a lake runs to its end")

    @classmethod
    def get_response(cls, cursor: LakeCursor) -> AdapterResponse:
        """How many rows a statement has changed."""
        affected = cursor.affected
        return AdapterResponse("OK" if affected is None else f"OK {affected}", rows_affected=affected)

    @classmethod
    def data_type_code_to_name(cls, type_code: int | str) -> str:
        """The name of a type: a cursor already has names."""
        return str(type_code)

    def begin(self) -> Connection:
        """Nothing to the lake: a statement commits by itself."""
        connection = self.get_thread_connection()
        connection.transaction_open = True
        return connection

    def commit(self) -> Connection:
        """Nothing to the lake: a statement has committed by itself."""
        connection = self.get_thread_connection()
        connection.transaction_open = False
        return connection

    @classmethod
    def _rollback(cls, connection: Connection) -> None:
        connection.transaction_open = False
