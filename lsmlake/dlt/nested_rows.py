"""Merges that must know the rows of a load before they write: finds the stored rows that the load replaces, and the rows of the
load that are not written.

A root row that is merged takes its nested rows with it: those that the load does not hold any more are deleted, and all of them
if the root row is deleted. The ids of root rows can differ between loads, so the ids of the stored rows of the same keys count,
too. So nested tables are written before their root: a load that was interrupted finds the old ids again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.table import Table
from lsmlake.dialect.connection import PatientConnection
from lsmlake.dialect.sql_types import quoted
from lsmlake.dlt.job_files import batches_of
from lsmlake.dlt.staged_rows import BATCH_ROWS, POSITION, Staged, fill, named, positions, short_names, staging
from lsmlake.errors import InvalidData, InvalidSchema


@dataclass(frozen=True)
class MergeRules:
    """How the rows of a root table are merged.

    `hard_delete`: the column that marks deletes. `merge_key`: stored rows with a value of the load are replaced. `sort`: the
    column, and "asc" or "desc": the first row of a key stays. `repeats`: a load may have several rows of a key.
    """

    hard_delete: str | None = None
    merge_key: tuple[str, ...] = ()
    sort: tuple[str, str] | None = None
    repeats: bool = True


@dataclass(frozen=True)
class StaleRows:
    """`connection`: has the tables `staged`, the keys of the load; `losers`, the positions of rows that another row of their key
    replaces; `roots`, the ids of all root rows that the load writes, and whether it deletes the row."""

    connection: PatientConnection
    root: Staged
    merge_key: tuple[str, ...]

    def of(self, nested: Staged, root_key: str) -> Iterator[pa.RecordBatch]:
        """Yields the ids of the stored or new rows of a nested table that are to be deleted, as a column with the name of its row
        key. `root_key`: the column with the ids of root rows.

        Raises InvalidData if stored rows lack the ids of their root rows."""
        ids = f"SELECT {quoted(nested.row_key)} AS id, {quoted(root_key)} AS root FROM batches"
        wanted = nested.columns(nested.row_key, root_key)
        fill(self.connection, "fresh", ids, wanted, batches_of(nested.paths, wanted))
        stored = nested.table.scan(columns=[nested.row_key, root_key])
        of_roots = f"{ids} WHERE root IS NULL OR root IN (SELECT id FROM roots)"
        fill(self.connection, "stored", of_roots, stored.schema, stored.to_batches())
        [(unknown,)] = self.connection.execute("SELECT count(*) FROM stored WHERE root IS NULL").fetchall()
        if unknown:
            raise InvalidData(
                "stored rows of a nested table lack the ids of their root rows, so a merge cannot replace them",
                where=nested.table.name,
                found=f"{unknown:,} rows without {root_key}",
                cure="load the table anew: refresh='drop_resources', or write_disposition='replace' with root_key=True",
            )
        found = self.connection.sql(
            "SELECT id FROM stored WHERE id NOT IN (SELECT id FROM fresh) "
            "UNION ALL SELECT id FROM fresh WHERE root IN (SELECT id FROM roots WHERE deleted)"
        )
        for batch in found.to_arrow_reader(BATCH_ROWS):
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.string())], [nested.row_key])

    def losers(self) -> pa.Array:
        """The positions of rows of the load that another row of their key replaces."""
        return positions(self.connection, "losers")

    def replaced(self) -> Iterator[pa.RecordBatch]:
        """Yields the stored rows of the root table that have a merge key of the load, and no primary key of it, with the columns
        that a delete needs."""
        if not self.merge_key:
            return
        wanted, keys = self.root.columns(*self.root.delete_columns), _ks(len(self.root.key))
        found = self.connection.sql(f"SELECT {short_names('d', len(wanted))} FROM replaced ANTI JOIN staged USING ({keys})")
        for batch in found.to_arrow_reader(BATCH_ROWS):
            arrays = [one.cast(at.type) for one, at in zip(batch.columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, wanted.names)


@contextmanager
def stale_rows(root: Staged, rules: MergeRules, memory_bytes: int, *, nested: bool) -> Iterator[StaleRows]:
    """A context in which the root rows of a load are known, with the ids that the stored rows of their keys have.

    Args:
        root: the root table and its files.
        rules: how its rows are merged.
        memory_bytes: what DuckDB may use; it spills to disk beyond.
        nested: the table has nested tables.

    Raises:
        InvalidData: the load has two rows of a key, and which of them the nested rows belong to is not known.
    """
    key = root.table.primary_key
    if nested and root.row_key not in root.table.schema.names:
        cure = "leave add_dlt_id on, or do not nest: max_table_nesting=0"
        raise InvalidSchema("a table with nested tables has no row key", where=root.table.name, found=None, cure=cure)
    with staging(memory_bytes) as connection:
        _stage(connection, root, rules)
        if nested:
            _check_repeats(connection, root.table, rules)
        if rules.merge_key:
            gone = root.delete_columns
            have = root.table.scan(columns=list(dict.fromkeys([*gone, *rules.merge_key, *_optional(root.row_key)])))
            names = f"{named('batches', 'k', key)}, {named('batches', 'd', gone)}, {_id('batches', root.row_key)} AS id"
            query = f"SELECT {names} FROM batches SEMI JOIN staged ON {_equal('m', rules.merge_key)}"
            fill(connection, "replaced", query, have.schema, have.to_batches())
        if nested:
            _find_roots(connection, root, bool(rules.merge_key))
        yield StaleRows(connection, root, rules.merge_key)


def unknown_rows(staged: Staged, rules: MergeRules, memory_bytes: int, *, nested: bool) -> pa.Array:
    """The positions of the rows of a load that an insert of new keys leaves out: those of keys that the table has, those that are
    marked as deleted, and of several rows of a key all but the first one.

    Raises InvalidData for several rows of a key, if the table has nested tables."""
    with staging(memory_bytes) as connection:
        _stage(connection, staged, rules, first="ASC")
        if nested:
            _check_repeats(connection, staged.table, rules)
        stored = staged.table.scan(columns=list(staged.key))
        query = f"SELECT staged.pos FROM batches JOIN staged ON {_equal('k', staged.key)}"
        fill(connection, "known", query, stored.schema, stored.to_batches())
        left_out = "SELECT pos FROM known UNION SELECT pos FROM losers UNION SELECT pos FROM staged WHERE deleted"
        return positions(connection, f"({left_out})")


def deletes_in_sql(column: str, columns: pa.Schema) -> str:
    """The condition that a row is a delete: its mark is true or, if it is no boolean, not null."""
    name = quoted(column)
    return f"coalesce({name}, false)" if pa.types.is_boolean(columns.field(column).type) else f"{name} IS NOT NULL"


def _stage(connection: PatientConnection, root: Staged, rules: MergeRules, first: str = "DESC") -> None:
    """Makes the tables `staged` and `losers`. `first`: the order of the positions in which the first row of a key stays."""
    key, sort = root.key, _optional(rules.sort and rules.sort[0])
    marks = _optional(rules.hard_delete)
    wanted = root.columns(*key, *_optional(root.row_key), *rules.merge_key, *sort, *marks)
    deleted = "false" if rules.hard_delete is None else deletes_in_sql(rules.hard_delete, wanted)
    names = [named("batches", "k", key), f"{_id('batches', root.row_key)} AS id", f"{deleted} AS deleted", f"{POSITION} AS pos"]
    names += [named("batches", "m", rules.merge_key)] if rules.merge_key else []
    names += [f"{quoted(sort[0])} AS sort"] if sort else []
    root.stage(connection, "staged", f"SELECT {', '.join(names)} FROM batches", *wanted.names)
    order = f"sort {rules.sort[1]} NULLS LAST, pos {first}" if rules.sort else f"pos {first}"
    ranked = f"SELECT pos, row_number() OVER (PARTITION BY {_ks(len(key))} ORDER BY {order}) AS place FROM staged"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE losers AS SELECT pos FROM ({ranked}) WHERE place > 1")


def _find_roots(connection: PatientConnection, root: Staged, by_merge_key: bool) -> None:
    """Makes the table `roots`. A row is deleted if no row of the load with its id or its key stays."""
    key = root.table.primary_key
    stored = root.table.scan(columns=list(dict.fromkeys([*key, root.row_key])))
    old = f"SELECT {_id('batches', root.row_key)} AS id, deleted FROM batches JOIN staged ON {_equal('k', key)}"
    fill(connection, "olds", old, stored.schema, stored.to_batches())
    parts = [
        "SELECT id, deleted OR pos IN (SELECT pos FROM losers) AS deleted FROM staged",
        "SELECT id, deleted FROM olds",
        *(["SELECT id, true FROM replaced"] if by_merge_key else []),
    ]
    union = " UNION ALL ".join(parts)
    query = f"SELECT id, bool_and(deleted) AS deleted FROM ({union}) WHERE id IS NOT NULL GROUP BY id"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE roots AS {query}")


def _check_repeats(connection: PatientConnection, table: Table, rules: MergeRules) -> None:
    """Raises InvalidData for several rows of a key, unless the rules allow them and their ids tell them apart."""
    keys = _ks(len(table.primary_key))
    repeated = "count(*) > 1" + (" AND count(*) > count(DISTINCT id)" if rules.repeats else "")
    query = f"SELECT {keys} FROM staged GROUP BY {keys} HAVING {repeated} LIMIT 1"
    if found := connection.execute(query).fetchall():
        raise InvalidData(
            "a load has several rows of one key, and the table has nested tables",
            where=table.name,
            found=dict(zip(table.primary_key, found[0], strict=True)),
            cure="give each key once, use the merge strategy 'delete-insert', or do not nest: max_table_nesting=0",
        )


def _optional(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _ks(count: int) -> str:
    return short_names("k", count)


def _id(source: str, row_key: str | None) -> str:
    return "NULL::VARCHAR" if row_key is None else f"{source}.{quoted(row_key)}"


def _equal(short: str, names: Sequence[str]) -> str:
    return " AND ".join(f"batches.{quoted(name)} = staged.{short}{number}" for number, name in enumerate(names))
