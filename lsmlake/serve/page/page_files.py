"""The files of the page: HTML, a style sheet and modules of JavaScript, which are data of this package; and the same in one file,
with data inside, for a reader who has no server.

In one file each module becomes a function that returns what it exports, because a browser loads no module from another file
there. The page of one file may run this one script and nothing else, and reaches no server: its policy names the script and the
style by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_KINDS |= {"svg": "image/svg+xml"}
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_FIRST = "main"


class PageFile(NamedTuple):
    """A file of the page. `tag`: changes with its content."""

    content: bytes
    kind: str
    tag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Name -> file."""
    found = {}
    for entry in sorted(files(__package__).joinpath("static").iterdir(), key=lambda one: one.name):
        suffix = entry.name.rpartition(".")[2]
        if suffix in _KINDS:
            content = entry.read_bytes()
            found[entry.name] = PageFile(content, _KINDS[suffix], tag_of(content))
    return found


def tag_of(content: bytes) -> str:
    """An ETag of HTTP."""
    return f'"{hashlib.sha256(content).hexdigest()[:24]}"'


def in_one_file(title: str, data: object) -> str:
    """The page as one HTML document with data for JSON in it, which `server.js` reads."""
    style, script = page_files()["page.css"].content.decode(), "".join(_modules())
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode(page_files()["icon.svg"].content).decode()
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            f'<script type="application/json" id="data">{json_in_html(data)}</script>',
            f'<script type="module">{script}</script>',
            "</body>",
            "</html>",
            "",
        ]
    )


def json_in_html(data: object) -> str:
    """JSON that no text in it can end early: it has neither `<` nor `&`, nor any other character than those of ASCII."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _modules() -> Iterator[str]:
    """The modules as functions, each behind those that it imports."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        text = page_files()[f"{name}.js"].content.decode()
        for _, other in _IMPORT.findall(text):
            yield from visit(other)
        exported = ", ".join(_EXPORT.findall(text))
        body = _EXPORT.sub("", _IMPORT.sub(lambda match: f"const {{{match[1]}}} = from_{match[2]};\n", text))
        yield f"\nconst from_{name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"

    return visit(_FIRST)
