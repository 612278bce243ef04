"""The verb that creates a table from rows, with columns inferred from the rows; and loading rows into a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import Data, OptionValue, RowKinds
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.api.table_verbs.handle import check_keyed
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidData, InvalidSchema, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema import rowkind
from lsmlake.schema.from_data import schema_from


@verbs_of("Lake")
class Loading(CatalogVerbs):
    """The verb that creates a table from rows."""

    def create_table_from(
        self,
        name: str,
        data: Data,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        cast: bool = False,
        row_kind: RowKinds | None = None,
        null_values: str | Collection[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> Table:
        """Create a table with the columns of `data` and load its rows as one commit.

        Key columns become NOT NULL; all other columns are nullable. Nanoseconds become microseconds if the conversion is
        lossless, dictionaries become their values, unsigned integers the next wider signed type. If `data` is several files, the
        first file determines the types. The first 16 MiB of a CSV file determine its types: numbers that begin with a zero and
        times of day become STRING, integers beyond 64 bits DECIMAL(38,0). A column without a name becomes `_c` and its number. A
        key column of CSV or JSON files whose values look like DOUBLE is refused, because rounding could make two keys equal. The
        table exists before its rows are committed: an error drops it again; a process that is killed leaves it empty.

        Args:
            name: "database.table".
            data: as in `Table.upsert`.
            primary_key: as in `create_table`.
            partition_by: as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`.
            cast: as in `Table.upsert`.
            row_kind: as in `Table.upsert`. The table gets no column for the row kinds.
            null_values: as in `Table.upsert`.
            delimiter: as in `Table.upsert`.
            encoding: as in `Table.upsert`.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidSchema: no table can have these columns or this key.
            InvalidOption: an option is unknown, or its value does not fit.
            InvalidData: a row does not fit the table.

        Example:
            >>> orders = lake.create_table_from("sales.orders", "orders.csv", primary_key=["order_id"])
        """
        table, _ = created_from(
            self,
            name,
            data,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            comment=comment,
            cast=cast,
            row_kind=row_kind,
            files=FileOptions.of(null_values, delimiter, encoding),
        )
        return table


def created_from(
    lake: CatalogVerbs,
    name: str,
    data: Data | Input,
    *,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, OptionValue] | None,
    comment: str | None,
    cast: bool,
    row_kind: RowKinds | None,
    files: FileOptions = FileOptions(),
    load: Callable[[Table, Data | Input], Snapshot | None] | None = None,
    columns: pa.Schema | None = None,
) -> tuple[Table, Snapshot | None]:
    """`Lake.create_table_from`; also returns the snapshot of its commit, None for data without rows. `load`: writes the rows.
    Default: `added`. `columns`: those of the table. Default: those of the data."""
    rows = data
    if columns is None:
        columns, rows = with_columns(lake.runtime, data, primary_key, rowkind.Source.of(row_kind), files)
    table = lake.create_table(name, columns, primary_key=primary_key, partition_by=partition_by, options=options, comment=comment)
    try:
        return table, (load or partial(added, cast=cast, row_kind=row_kind))(table, rows)
    except BaseException:
        if table.meta.snapshots.latest_id() is None:  # no other writer has committed
            lake.drop_table(name)
        raise


def added(table: Table, data: Data | Input, *, cast: bool, row_kind: RowKinds | None) -> Snapshot | None:
    """Appends the rows to a table without a primary key; upserts them otherwise."""
    schema = table.version.schema
    if not schema.append_only:
        return table.upsert(data, cast=cast, row_kind=row_kind)
    if row_kind is not None:
        check_keyed(schema, table.name, "row_kind", "leave row_kind out")
    return table.append(data, cast=cast)


def with_columns(
    runtime: Runtime, data: Data | Input, primary_key: Sequence[str], kinds: rowkind.Source | None, options: FileOptions
) -> tuple[pa.Schema, Data | Input]:
    """The columns of a table for `data`, and the data to load. `options`: how text files are read."""
    if runtime.owns(data):
        options.check((), "", "a DataFrame")
        return schema_from(_without(runtime.columns_of(data.schema), kinds)), data
    given = as_input(data, inferred=True, options=options)
    first = next(given.tables, None)
    if first is None or not first.num_columns:
        raise InvalidData(
            "the data has no columns",
            expected="data with the columns of the table",
            cure="create the table with a schema",
        )
    columns = schema_from(_without(first.schema, kinds))
    if given.guessed:
        _check_guessed_key(columns, primary_key)
    return columns, given._replace(tables=chain([first], given.tables))


def _without(columns: pa.Schema, kinds: rowkind.Source | None) -> pa.Schema:
    return pa.schema([field for field in columns if kinds is None or field.name != kinds.column])


def _check_guessed_key(columns: pa.Schema, primary_key: Sequence[str]) -> None:
    """Raises InvalidSchema for a key column whose texts look like DOUBLE: rounding could make two keys equal."""
    for column in columns:
        if column.name in primary_key and pa.types.is_floating(column.type):
            raise InvalidSchema(
                "the numbers of a key column have fractions or exponents",
                where=f"column {column.name!r}",
                expected="integers or text: the values look like DOUBLE, and rounding could make two keys equal",
                cure=Wording(
                    "create the table with a schema, such as DECIMAL(20,2) or STRING for the column, then upsert the files",
                    command="create the table in a program with a schema, then load without --create",
                ),
            )
