"""The pictures of the documents, drawn as SVG. `python -m tests.pictures` writes them; test_docs.py compares the files with them.

Shapes have fixed places and colours on a white ground. So a picture looks the same in a light and in a dark page, and needs no
font of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "lsmlake" / "docs" / "pictures"
GROUND, INK, FAINT = "#ffffff", "#1f2933", "#7b8794"
BLUE, ORANGE, GREEN, GREY, RED = "#dbeafe", "#ffe8cc", "#d9f2e3", "#eef1f4", "#ffd9d9"
LINE = 17


class Drawing:
    """Shapes on a white ground. `about`: what a reader who cannot see the picture is told."""

    def __init__(self, width: int, height: int, about: str) -> None:
        self.shapes = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{escape(about)}</title>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="{GROUND}"/>',
        ]

    def text(self, x: float, y: float, text: str, anchor: str = "start", bold: bool = False, ink: str = INK) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{ink}"{weight}>{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str] = (), fill: str = GREY) -> None:
        """A rectangle with lines of text in its middle; the first is bold if there are several."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="{INK}"/>'
        )
        top = y + height / 2 - LINE * (len(lines) - 1) / 2 + 4.5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + LINE * number, line, "middle", bold=number == 0 and len(lines) > 1)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, text: str = "", dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}"{dash} marker-end="url(#tip)"/>')
        if text:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, text, "middle")

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{FAINT}" stroke-dasharray="3 4"/>')

    def done(self) -> str:
        return "\n".join([*self.shapes, "</svg>"]) + "\n"


def tree() -> str:
    """The levels of a bucket after ten upserts, as `lsmlake show` printed them: level, rows, dead rows."""
    levels = [
        (0, 1000, 0),
        (0, 1000, 0),
        (24, 7943, 0),
        (28, 57076, 3014),
        (29, 57082, 8204),
        (30, 57027, 12644),
        (31, 212906, 8516),
    ]
    drawing = Drawing(
        760, 330, "One bucket: an LSM tree. Level 0 has two new runs, deeper levels one older run each; some rows are dead"
    )
    drawing.text(20, 26, "One bucket of a table", bold=True)
    drawing.text(
        20,
        46,
        "A box is a sorted run of Parquet files; its width shows its rows. Red: dead rows, marked in deletion vectors.",
        ink=FAINT,
    )
    for place, (level, rows, dead) in enumerate(levels):
        y, width = 66 + 36 * place, 14 + rows / 212906 * 440
        drawing.text(20, y + 19, f"level {level}")
        drawing.box(90, y, width, 27, fill=BLUE if level else ORANGE)
        if dead:
            drawing.box(90 + width - dead / 212906 * 440, y, dead / 212906 * 440, 27, fill=RED)
        told = f"{rows:,} rows" + (f", {dead:,} dead" if dead else "")
        drawing.text(100 + width, y + 19, told)
    drawing.text(722, 84, "newer", "middle")
    drawing.arrow(722, 300, 722, 92)
    drawing.text(722, 318, "older", "middle")
    return drawing.done()


def pointers() -> str:
    """The files of the example of FORMAT.md, and which names which."""
    drawing = Drawing(
        860, 400, "snapshot-2 names a base list, a delta list and an index manifest; lists name manifests, these data files"
    )
    drawing.box(20, 160, 130, 60, ["snapshot-2", "JSON"], ORANGE)
    drawing.box(210, 30, 170, 50, ["manifest-list-0011", "delta"])
    drawing.box(210, 130, 170, 50, ["manifest-list-0010", "base"])
    drawing.box(210, 280, 170, 50, ["index-manifest-0012", "vectors"])
    drawing.box(430, 30, 150, 50, ["manifest-0009", "ADD, sequence 2"])
    drawing.box(430, 130, 150, 50, ["manifest-0003", "ADD, sequence 1"])
    drawing.box(430, 280, 150, 50, ["dv-0008.puffin", "position 1"], RED)
    drawing.box(640, 30, 190, 50, ["data-0007.parquet", "level 30: id 2"], BLUE)
    drawing.box(640, 130, 190, 50, ["data-0002.parquet", "level 31: ids 1 2 3 4 5"], BLUE)
    for y, end in ((175, 55), (185, 155), (205, 305)):
        drawing.arrow(150, y, 210, end)
    for y in (55, 155, 305):
        drawing.arrow(380, y, 430, y)
    drawing.arrow(580, 55, 640, 55)
    drawing.arrow(580, 155, 640, 155)
    drawing.arrow(580, 300, 700, 180, dashed=True)
    drawing.text(668, 256, "the row with id 2 is dead")
    drawing.arrow(85, 220, 85, 290)
    drawing.box(20, 290, 130, 50, ["schema-0", "columns, options"], ORANGE)
    drawing.text(
        20,
        378,
        "An arrow is a name in a file. A snapshot is published by its creation; all files that it names exist before.",
        ink=FAINT,
    )
    return drawing.done()


def envelope() -> str:
    """The bytes of a binary file."""
    drawing = Drawing(
        860, 190, "Bytes of a binary file: magic, kind, version, size before compression, a zstd frame of msgpack, CRC-32"
    )
    parts = [
        (90, "LSMK", "magic", "4 bytes", GREY),
        (90, "MANF", "kind", "4", GREY),
        (70, "0001", "version", "2", GREY),
        (150, "size of the object", "before compression", "8", ORANGE),
        (310, "one zstd frame", "of a msgpack object", "to the last 4 bytes", BLUE),
        (90, "CRC-32", "of all before", "4", GREEN),
    ]
    x = 25
    for width, first, second, size, fill in parts:
        drawing.box(x, 40, width, 60, [first, second], fill)
        drawing.text(x + width / 2, 122, size, "middle", ink=FAINT)
        x += width
    drawing.text(25, 26, "A binary file, for example manifest-0003", bold=True)
    drawing.text(
        25, 160, "All integers are big-endian. The frame has no length of its own: it ends where the checksum begins.", ink=FAINT
    )
    return drawing.done()


def number() -> str:
    """The states of the number of a snapshot."""
    drawing = Drawing(860, 270, "A number is free, then a snapshot, then a mark, then free again after 500 newer marks")
    drawing.box(30, 60, 120, 56, ["free", "no file"], GREY)
    drawing.box(270, 60, 150, 56, ["snapshot", "snapshot-<n>"], GREEN)
    drawing.box(550, 20, 160, 50, ["mark", "expired"], ORANGE)
    drawing.box(550, 120, 160, 50, ["mark", "rolled back"], ORANGE)
    drawing.arrow(150, 88, 270, 88, "create if absent")
    drawing.arrow(420, 78, 550, 48, "expires")
    drawing.arrow(420, 98, 550, 140)
    drawing.text(472, 138, "rollback with cut", "middle")
    drawing.arrow(630, 70, 630, 96)
    drawing.text(640, 98, "500 newer marks: the file is deleted")
    drawing.arrow(270, 106, 150, 106)
    drawing.text(210, 124, "withdrawn", "middle")
    drawing.text(
        30,
        205,
        "A slow writer may create a snapshot under a number whose mark was deleted. It then looks for snapshot n - 1 or",
        ink=FAINT,
    )
    drawing.text(
        30,
        223,
        "its mark, finds neither, and withdraws. Readers ignore such a file: its number is less than that of a mark `expired`.",
        ink=FAINT,
    )
    drawing.text(30, 249, "Marks of a cut do not end the search: readers step over them to the next number.", ink=FAINT)
    return drawing.done()


def page() -> str:
    """A bucket as the page of `lsmlake serve` draws it, before and after a compaction."""
    drawing = Drawing(
        860, 250, "The tree of a bucket at two snapshots, as the page draws it: two runs at level 0 are merged into level 2"
    )
    before = [("L0", 90, 0, ORANGE), ("L0", 120, 0, ORANGE), ("L2", 170, 18, BLUE), ("L3", 250, 60, BLUE)]
    after = [("L2", 330, 0, GREEN), ("L3", 190, 100, BLUE)]
    for left, title, runs in (
        (20, "Snapshot 41, append", before),
        (450, "Snapshot 42, compact: 1 file came, 3 files went", after),
    ):
        drawing.text(left, 28, title, bold=True)
        for place, (level, live, dead, fill) in enumerate(runs):
            y = 46 + 34 * place
            drawing.text(left, y + 17, level, ink=FAINT)
            drawing.box(left + 32, y, live, 24, fill=fill)
            if dead:
                drawing.box(left + 32 + live, y, dead, 24, fill=RED)
    drawing.line(430, 20, 430, 190)
    for x, fill, told in (
        (20, ORANGE, "waits at level 0"),
        (190, BLUE, "deeper levels"),
        (350, RED, "dead rows"),
        (490, GREEN, "came"),
    ):
        drawing.box(x, 206, 18, 18, fill=fill)
        drawing.text(x + 26, 220, told)
    drawing.text(580, 220, "widths by bytes; a slider goes on to the next", ink=FAINT)
    return drawing.done()


def recency() -> str:
    """Which of the runs of a bucket is newer."""
    drawing = Drawing(760, 290, "Level 0 is ordered by sequence, deeper levels by their number")
    drawing.text(20, 28, "Which run is newer", bold=True)
    runs = [
        ("level 0", "sequence 9", ORANGE, "newest: of level 0 the greatest sequence"),
        ("level 0", "sequence 8", ORANGE, ""),
        ("level 28", "sequences 5 to 7", BLUE, "from level 1 on the smaller level is newer,"),
        ("level 30", "sequences 3 to 4", BLUE, "whatever the sequences are"),
        ("level 31", "sequences 1 to 2", BLUE, "the last level: the oldest rows"),
    ]
    for place, (level, sequences, fill, told) in enumerate(runs):
        y = 46 + 44 * place
        drawing.box(60, y, 250, 34, fill=fill)
        drawing.text(72, y + 22, level, bold=True)
        drawing.text(298, y + 22, sequences, "end")
        drawing.text(330, y + 22, told)
    drawing.arrow(35, 250, 35, 52)
    drawing.text(
        20, 280, "A compaction takes level 0 and the next older runs without a gap, so level order stays time order.", ink=FAINT
    )
    return drawing.done()


def race() -> str:
    """Two writers that try to create the same snapshot, as a sequence diagram."""
    drawing = Drawing(
        860,
        560,
        "Two writers race for snapshot 8: A creates it; B is refused, reads it and creates snapshot 9",
    )
    columns = {"A": 130, "store": 430, "B": 730}
    for name, x in columns.items():
        drawing.box(
            x - 75, 16, 150, 34, [{"A": "writer A", "B": "writer B"}.get(name, "storage")], ORANGE if name != "store" else GREY
        )
        drawing.line(x, 50, x, 540)
    steps: list[tuple[str, str, str]] = [
        ("A", "store", "read snapshot 7"),
        ("B", "store", "read snapshot 7"),
        ("A", "store", "data files, vectors, manifest"),
        ("B", "store", "data files, vectors, manifest"),
        ("A", "store", "lists of snapshot 8"),
        ("B", "store", "lists of snapshot 8"),
        ("A", "store", "create snapshot-8 if absent: done"),
        ("B", "store", "create snapshot-8 if absent: taken"),
        ("A", "store", "snapshot 7 and schema 0 still there?"),
        ("B", "store", "read snapshot 8, delete the lists, wait"),
        ("B", "store", "requirements, rebase; new lists only"),
        ("B", "store", "create snapshot-9 if absent: done"),
        ("B", "store", "snapshot 8 and schema 0 still there?"),
    ]
    for place, (source, target, text) in enumerate(steps):
        y = 86 + 34 * place
        drawing.arrow(columns[source], y, columns[target], y, text)
    drawing.text(
        20,
        552,
        "B writes no row again. If A has changed the files of B's own compaction, B commits its new rows at level 0 instead.",
        ink=FAINT,
    )
    return drawing.done()


PICTURES: Mapping[str, Callable[[], str]] = {
    "tree.svg": tree,
    "pointers.svg": pointers,
    "envelope.svg": envelope,
    "number.svg": number,
    "recency.svg": recency,
    "race.svg": race,
    "page.svg": page,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
