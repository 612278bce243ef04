"""Writes workbooks for tests: the parts of an .xlsx file that a reader needs."""

from __future__ import annotations

import datetime as dt
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_LINKS = "application/vnd.openxmlformats-package.relationships+xml"
_STYLES = f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf/><xf numFmtId="14"/><xf numFmtId="22"/></cellXfs></styleSheet>'
_EPOCH = dt.datetime(1899, 12, 30)


def workbook(path: Path, *sheets: list[list[object]]) -> Path:
    """A workbook with the sheets S1, S2, ... A text that begins with # is the value of an error."""
    numbers = range(1, len(sheets) + 1)
    kinds = f'<Default Extension="rels" ContentType="{_LINKS}"/>' + _part("workbook.xml", "sheet.main")
    kinds += "".join(_part(f"worksheets/sheet{number}.xml", "worksheet") for number in numbers)
    links = _link("styles", "styles", "styles.xml")
    links += "".join(_link(f"r{number}", "worksheet", f"worksheets/sheet{number}.xml") for number in numbers)
    names = "".join(f'<sheet name="S{number}" sheetId="{number}" r:id="r{number}"/>' for number in numbers)
    start = _link("w", "officeDocument", "xl/workbook.xml")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{_PACKAGE}/content-types">{kinds}</Types>')
        file.writestr("_rels/.rels", f'<Relationships xmlns="{_PACKAGE}/relationships">{start}</Relationships>')
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>')
        file.writestr("xl/workbook.xml", f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>')
        file.writestr("xl/styles.xml", _STYLES)
        for number, lines in zip(numbers, sheets, strict=True):
            rows = "".join(_row(row, line) for row, line in enumerate(lines, 1))
            file.writestr(
                f"xl/worksheets/sheet{number}.xml", f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'
            )
    return path


def _part(name: str, kind: str) -> str:
    return f'<Override PartName="/xl/{name}" ContentType="{_KIND}.{kind}+xml"/>'


def _link(number: str, kind: str, target: str) -> str:
    return f'<Relationship Id="{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'


def _row(number: int, line: list[object]) -> str:
    cells = "".join(_cell(value, f'r="{_letters(column)}{number}"') for column, value in enumerate(line))
    return f'<row r="{number}">{cells}</row>'


def _letters(column: int) -> str:
    first, last = divmod(column, 26)
    return (chr(64 + first) if first else "") + chr(65 + last)


def _cell(value: object, place: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return f'<c {place} t="b"><v>{int(value)}</v></c>'
        case str() if value.startswith("#"):
            return f'<c {place} t="e"><v>{value}</v></c>'
        case str():
            return f'<c {place} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        case dt.datetime():
            return f'<c {place} s="2"><v>{(value - _EPOCH) / dt.timedelta(days=1)!r}</v></c>'
        case dt.date():
            return f'<c {place} s="1"><v>{(value - _EPOCH.date()).days}</v></c>'
    return f"<c {place}><v>{value!r}</v></c>"
