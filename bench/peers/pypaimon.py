"""pypaimon: Paimon's primary-key tables in process, merged when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from bench.peers.arrow import ArrowPeer, rows_of
from bench.peers.base import BUCKETS, Unsupported, Wanted
from bench.peers.read import Read

_ENGINES = {"upsert": "deduplicate", "partial": "partial-update"}
_NATIVE = ("read.native.enabled", "write.native.enabled", "commit.native.enabled")
_KIND = "row_kind"
_OPERATORS = {"=": "equal", "<": "less_than", "<=": "less_or_equal", ">": "greater_than", ">=": "greater_or_equal"}


class PyPaimon(ArrowPeer):
    """It neither compacts nor writes deletion vectors of primary-key tables. `native`: by its bindings to paimon-rust. A table
    that rows are deleted from has a column that tells so of a row."""

    package = "pypaimon"
    settings: ClassVar = {
        "bucket": str(BUCKETS),
        "file.format": "parquet",
        "file.compression": "zstd",
        "file.compression.zstd-level": "1",
    }

    def __init__(self, folder: Path, jars: Sequence[Path] = (), native: bool = False) -> None:
        super().__init__(folder, jars)
        if native:
            self.settings = {**self.settings, **dict.fromkeys(_NATIVE, "true")}

    def create(self, wanted: Wanted) -> None:
        if wanted.changes:
            raise Unsupported("no changelog is written")
        options = {**self.settings, "merge-engine": _ENGINES.get(wanted.engine, wanted.engine)}
        if wanted.engine == "aggregation":
            options |= {f"fields.{name}.aggregate-function": "sum" for name in wanted.summed}
        catalog = CatalogFactory.create({"warehouse": str(self.folder / "warehouse")})
        catalog.create_database("bench", True)
        self.schema = wanted.schema
        if wanted.deletes:
            options["rowkind.field"] = _KIND
            self.schema = self.schema.append(pa.field(_KIND, pa.string()))
        schema = Schema.from_pyarrow_schema(self.schema, primary_keys=[wanted.key], options=options)
        catalog.create_table("bench.t", schema, False)
        self.handle = catalog.get_table("bench.t")

    def upsert(self, path: Path) -> None:
        self._write(rows_of(path), "+I")

    def delete(self, path: Path) -> None:
        self._write(rows_of(path), "-D")

    def update(self, path: Path) -> None:
        self._write(rows_of(path), "+I")

    def _write(self, rows: pa.Table, kind: str) -> None:
        """Columns that `rows` lacks are null, which partial-update takes for "as it was"."""
        given = {name: rows[name] for name in rows.column_names} | {_KIND: pa.repeat(kind, rows.num_rows)}
        columns = [given.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in self.schema]
        builder = self.handle.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.table(columns, schema=self.schema))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def scan(self, read: Read | None) -> pa.Table:
        builder = self.handle.new_read_builder()
        if read is not None:
            builder = builder.with_projection(list(read.columns))
            if read.where:
                predicates = self.handle.new_read_builder().new_predicate_builder()
                parts = [getattr(predicates, _OPERATORS[operator])(name, number) for name, operator, number in read.where]
                builder = builder.with_filter(predicates.and_predicates(parts))
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def compact(self) -> None:
        raise Unsupported("no compaction of primary-key tables")
