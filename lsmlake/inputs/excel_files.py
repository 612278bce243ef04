"""Excel workbooks: the sheet with rows, as an Arrow table. The package python-calamine reads the cells.

The first row with a value has the names of the columns. Excel stores every number as a double, so a column of whole numbers is
BIGINT. A cell without a value, with an error such as #N/A, or with a text of `null_values` is null; a row without a value is
left out. A column of values of several kinds is text, as in a CSV file.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording
from lsmlake.extras import need
from lsmlake.types.type_table import is_text

SUFFIXES = "xlsx", "xlsm", "xls", "xlsb"
_EXACT = 2.0**53
_NOTHING = ""
"""A cell without a value, as python-calamine gives it."""
_DATES, _TIMES = {dt.date}, {dt.date, dt.datetime}
_DURATION_UNITS = 3600, 60


@dataclass(frozen=True)
class ExcelFile:
    """A sheet of a workbook. `cells`: the columns, each with its values. `rows`: the number of each row in the sheet."""

    path: str
    sheet: str
    names: tuple[str, ...]
    cells: tuple[list[object], ...]
    rows: tuple[int, ...]
    null_values: tuple[str, ...]

    @property
    def recognised(self) -> tuple[str, ...]:
        nameless = [name for number, name in enumerate(self.names) if name == f"_c{number}"]
        columns = (f"columns without a name: {', '.join(nameless)}",) if nameless else ()
        return (f"sheet {self.sheet!r}", *columns)

    def columns(self) -> pa.Schema:
        """The columns with the types of their values; STRING for a column without values."""
        return self.table(None).schema

    def table(self, schema: pa.Schema | None) -> pa.Table:
        """The rows. `schema`: the columns of the target table, if it exists."""
        texts = {field.name for field in schema or () if is_text(field.type)}
        kept = [
            number
            for number, name in enumerate(self.names)
            if schema is None
            or name in schema.names
            or name != f"_c{number}"
            or any(one is not None for one in self.cells[number])
        ]
        arrays = [_array(self.cells[number], self.names[number] in texts) for number in kept]
        return pa.table(arrays, names=[self.names[number] for number in kept])

    def cure(self, value: str) -> Wording:
        """The cure for a cell that does not fit the type of its column. `value`: the cure for its value."""
        return Wording(
            f"{value}, or pass null_values=[...] with its text if it stands for no value",
            command=f"{value}, or give --null-value with its text if it stands for no value",
        )

    def line_of(self, row: int) -> int | None:
        """The row of the sheet, counted from 1."""
        return self.rows[row]


def opened(path: str, null_values: tuple[str, ...]) -> ExcelFile:
    """The sheet of a workbook that has rows. Raises InvalidData, MissingDependency."""
    calamine = need("python_calamine", "reading Excel files")
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            sheets = {name: _filled(book.get_sheet_by_name(name)) for name in book.sheet_names}
    except (calamine.CalamineError, OSError) as broken:
        raise InvalidData("the workbook cannot be read", where=path, found=broken, cure="save it as .xlsx or .csv") from broken
    full = {name: rows for name, rows in sheets.items() if rows}
    if not full:
        raise InvalidData(
            "the workbook has no row", where=path, cure="write the names of the columns into its first row, or leave it out"
        )
    if len(full) > 1:
        raise InvalidData(
            "the workbook has several sheets with rows",
            where=path,
            expected="one sheet with rows",
            found=list(full),
            cure=Wording(
                f"pass pandas.read_excel(path, sheet_name={next(iter(full))!r}, engine='calamine'), or save the sheet as a file "
                "of its own",
                command="save the sheet as a file of its own",
            ),
        )
    ((sheet, rows),) = full.items()
    (_, header), *rest = rows
    nulls = {_NOTHING, *null_values}
    names = tuple(_name(cell, number) for number, cell in enumerate(header))
    if len(set(names)) != len(names):
        raise InvalidData(
            "two columns of the sheet have the same name",
            where=f"{path}, sheet {sheet!r}",
            found=sorted({name for name in names if names.count(name) > 1}),
            cure="rename one of them in the first row of the sheet",
        )
    cells = tuple([None if isinstance(row[number], str) and row[number] in nulls else row[number] for _, row in rest]
                  for number in range(len(names)))  # fmt: skip
    return ExcelFile(path, sheet, names, cells, tuple(number for number, _ in rest), null_values)


def _filled(sheet: object) -> list[tuple[int, list[object]]]:
    """The rows with a value, each with its number in the sheet."""
    rows = enumerate(sheet.to_python(skip_empty_area=False), 1)
    return [(number, row) for number, row in rows if any(cell != _NOTHING for cell in row)]


def _name(cell: object, number: int) -> str:
    name = _text(cell)
    return name if name and name.strip() else f"_c{number}"


def _array(values: Sequence[object], as_text: bool) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {float, int} and kinds and not as_text:
        whole = all(value is None or (abs(value) <= _EXACT and float(value).is_integer()) for value in values)
        return pa.array(
            [value if value is None or not whole else int(value) for value in values], pa.int64() if whole else pa.float64()
        )
    if kinds == {bool} and not as_text:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= _TIMES and not as_text:
        if kinds == _DATES:
            return pa.array(values, pa.date32())
        return pa.array([value and dt.datetime.combine(value, _time_of(value)) for value in values], pa.timestamp("us"))
    return pa.array([_text(value) for value in values], pa.string())


def _time_of(value: dt.date) -> dt.time:
    return value.time() if isinstance(value, dt.datetime) else dt.time()


def _text(value: object) -> str | None:
    """The text of a cell: as a CSV file of the sheet has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        hours, rest = divmod(value.total_seconds(), _DURATION_UNITS[0])
        return f"{int(hours):02}:{int(rest // 60):02}:{rest % 60:09.6f}".removesuffix(".000000")
    if isinstance(value, (int, float)) and math.isfinite(value):
        return str(int(value)) if float(value).is_integer() else format(Decimal(repr(value)), "f")
    return value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)
