"""Bytes as text and text as bytes: the functions, and the macros of DuckDB that they call."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, constant_text, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import or_refused, refused
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BINARY, BOOLEAN, STRING

_DIGIT, _REST = "[0-9A-F]", "[89AB][0-9A-F]"
_UTF8 = (
    f"(?:[0-7]{_DIGIT}|(?:C[2-9A-F]|D{_DIGIT}){_REST}|E0[AB]{_DIGIT}{_REST}|(?:E[1-9ABCEF]{_REST}|ED[89]{_DIGIT}){_REST}"
    f"|F0[9AB]{_DIGIT}{_REST}{_REST}|F[1-3]{_REST}{_REST}{_REST}|F48{_DIGIT}{_REST}{_REST})*"
)
_UTF16 = f"(?:(?:[0-9A-CEF]{_DIGIT}|D[0-7]){_DIGIT}{{2}}|D[89AB]{_DIGIT}{{2}}D[C-F]{_DIGIT}{{2}})*"
_UTF32 = f"(?:0000(?:[0-9A-CEF]{_DIGIT}|D[0-7]){_DIGIT}{{2}}|00(?:0[1-9A-F]|10){_DIGIT}{{4}})*"
_SPACE = r"[ \t-\r\x1C-\x1F\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200A}\x{2028}\x{2029}\x{205F}\x{3000}]"
_WRONG = {
    "hex": "is no text of hexadecimal digits; use try_to_binary to get NULL instead",
    "base64": "is not base64; use try_to_binary to get NULL instead",
}
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32")
_CHARSET = refused(f"concat('''', c, ''' is no encoding that Spark knows; write one of {', '.join(CHARSETS)}')")
_MALFORMED = refused("concat('the bytes ', left(hex(b), 40), ' are no text in this encoding; correct them')")
_FORMAT = refused("concat('''', f, ''' is no format of to_binary; write hex, utf-8 or base64')")


def _per_character(text: str, code: str) -> str:
    """The hexadecimal digits of the characters of a text. `code`: the digits of one character `k`."""
    return f"array_to_string(list_transform(string_split({text}, ''), lambda k: {code}), '')"


def _characters(digits: str, pattern: str, code: str) -> str:
    """The text that hexadecimal digits stand for. `code`: the code point of the character with the digits `k`."""
    return f"array_to_string(list_transform(regexp_extract_all({digits}, '{pattern}'), lambda k: TRY(chr({code}))), '')"


_TWO_UNITS = "printf('%04X%04X', 55296 + (ord(k) - 65536) // 1024, 56320 + (ord(k) - 65536) % 1024)"
_ONE_BYTE = "CASE WHEN s = '' THEN '' ELSE {} END"
_UNIT = "TRY_CAST('0x' || k AS INTEGER)"
_PAIR = "65536 + (TRY_CAST('0x' || left(k, 4) AS INTEGER) - 55296) * 1024 + TRY_CAST('0x' || right(k, 4) AS INTEGER) - 56320"
_TOO_GREAT = refused("concat('''', s, ''' has a character that this encoding lacks; use utf-8')")


def _single(greatest: int) -> str:
    """The digits of a text in an encoding with one byte per character."""
    small = f"len(list_filter(string_split(s, ''), lambda k: ord(k) > {greatest})) = 0"
    code = _per_character("s", "printf('%02X', ord(k))")
    return f"CASE WHEN {small} THEN {code} ELSE {_TOO_GREAT} END"


def _decoded(pattern: str, text: str) -> str:
    """The text of the digits `h` of the bytes `b`, if they fit the pattern."""
    return f"CASE WHEN regexp_full_match(h, '{pattern}') THEN {text} ELSE {_MALFORMED} END"


_BY_CHARSET = " ".join(f"WHEN '{name}' THEN spark_{name.replace('-', '_')}_{{0}}" for name in CHARSETS)

MACROS = {
    "spark_swapped(h)": r"regexp_replace(h, '(..)(..)', '\2\1', 'g')",
    "spark_unhex(s)": "CASE WHEN regexp_full_match(s, '[0-9A-Fa-f]*') "
    "THEN unhex(CASE WHEN length(s) % 2 = 1 THEN '0' || s ELSE s END) END",
    "spark_is_utf8(b)": f"regexp_full_match(hex(b), '{_UTF8}')",
    "spark_text(b)": f"CASE WHEN b IS NULL THEN NULL WHEN spark_is_utf8(b) THEN decode(b) ELSE {_MALFORMED} END",
    "spark_bytes_apart(b)": r"regexp_replace(hex(b), '(..)', '\1 ', 'g')",
    "spark_bytes_contain(a, b)": "contains(spark_bytes_apart(a), spark_bytes_apart(b))",
    "spark_bytes_part(b, p, n)": "unhex(spark_substring(hex(b), CASE WHEN p > 0 THEN 2 * p - 1 ELSE 2 * p END, "
    "2 * CAST(n AS BIGINT)))",
    "spark_bytes_reversed(b)": "unhex(array_to_string(list_reverse(regexp_extract_all(hex(b), '..')), ''))",
    # base64: white space may stand before the padding
    "spark_padded(t)": "t || CASE WHEN contains(t, '=') THEN '' ELSE repeat('=', (4 - length(t) % 4) % 4) END",
    "spark_base64_bytes(s)": f"CASE WHEN regexp_full_match(s, '(?:[A-Za-z0-9+/]|{_SPACE})*={{0,2}}') "
    f"THEN list_transform([regexp_replace(s, '{_SPACE}', '', 'g')], "
    "lambda t: CASE WHEN length(t) % 4 = 0 OR (length(t) % 4 <> 1 AND NOT contains(t, '=')) "
    "THEN from_base64(spark_padded(t)) END)[1] END",
    "spark_try_to_binary(s, f)": "CASE lower(f) WHEN 'hex' THEN spark_unhex(s) WHEN 'base64' THEN spark_base64_bytes(s) "
    "WHEN 'utf-8' THEN encode(s) WHEN 'utf8' THEN encode(s) END",
    "spark_to_binary(s, f)": "CASE WHEN s IS NULL OR f IS NULL THEN NULL ELSE CASE lower(f) "
    f"WHEN 'hex' THEN {or_refused('spark_unhex(s)', 's', _WRONG['hex'])} "
    f"WHEN 'base64' THEN {or_refused('spark_base64_bytes(s)', 's', _WRONG['base64'])} "
    f"WHEN 'utf-8' THEN encode(s) WHEN 'utf8' THEN encode(s) ELSE {_FORMAT} END END",
    # the digits of a text in an encoding
    "spark_utf_8_of(s)": "hex(encode(s))",
    "spark_us_ascii_of(s)": _ONE_BYTE.format(_single(127)),
    "spark_iso_8859_1_of(s)": _ONE_BYTE.format(_single(255)),
    "spark_utf_16be_of(s)": _ONE_BYTE.format(
        _per_character("s", f"CASE WHEN ord(k) < 65536 THEN printf('%04X', ord(k)) ELSE {_TWO_UNITS} END")
    ),
    "spark_utf_16le_of(s)": "spark_swapped(spark_utf_16be_of(s))",
    "spark_utf_16_of(s)": "CASE WHEN s = '' THEN '' ELSE 'FEFF' || spark_utf_16be_of(s) END",
    "spark_utf_32_of(s)": _ONE_BYTE.format(_per_character("s", "printf('%08X', ord(k))")),
    "spark_encode(s, c)": "CASE WHEN s IS NULL OR c IS NULL THEN NULL "
    f"ELSE CASE lower(c) {_BY_CHARSET.replace('_{0}', '_of(s)')} ELSE {_CHARSET} END END",
    # the text of the bytes b in an encoding; h: their digits
    "spark_utf_8_text(b, h)": "spark_text(b)",
    "spark_us_ascii_text(b, h)": _decoded(f"(?:[0-7]{_DIGIT})*", "decode(b)"),
    "spark_iso_8859_1_text(b, h)": _characters("h", "..", _UNIT),
    "spark_utf_16be_text(b, h)": _decoded(
        _UTF16, _characters("h", "D[89AB]..D[C-F]..|....", f"CASE WHEN length(k) = 8 THEN {_PAIR} ELSE {_UNIT} END")
    ),
    "spark_utf_16le_text(b, h)": "spark_utf_16be_text(b, spark_swapped(h))",
    "spark_utf_16_text(b, h)": "CASE left(h, 4) WHEN 'FEFF' THEN spark_utf_16be_text(b, substr(h, 5)) "
    "WHEN 'FFFE' THEN spark_utf_16le_text(b, substr(h, 5)) ELSE spark_utf_16be_text(b, h) END",
    "spark_utf_32be_text(b, h)": _decoded(_UTF32, _characters("h", "........", _UNIT)),
    "spark_utf_32_text(b, h)": "CASE left(h, 8) WHEN '0000FEFF' THEN spark_utf_32be_text(b, substr(h, 9)) WHEN 'FFFE0000' "
    r"THEN spark_utf_32be_text(b, regexp_replace(substr(h, 9), '(..)(..)(..)(..)', '\4\3\2\1', 'g')) "
    "ELSE spark_utf_32be_text(b, h) END",
    "spark_decode(b, c)": "CASE WHEN b IS NULL OR c IS NULL THEN NULL "
    f"ELSE CASE lower(c) {_BY_CHARSET.replace('_{0}', '_text(b, hex(b))')} ELSE {_CHARSET} END END",
}
"""Head -> body. A macro comes after the macros that it calls."""


def _to_binary(macro: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        value, *_ = counted(context, node, arguments, 1, 2)
        kind = constant_text(context, arguments[1]) if len(arguments) > 1 else "'hex'"
        return Typed(f"{macro}({context.converted(arguments[0], value, STRING)}, {kind})", BINARY)

    return made


def _encode(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, charset = counted(context, node, arguments, 2)
    text, name = (context.converted(one, made, STRING) for one, made in zip(arguments, (value, charset), strict=True))
    return Typed(f"unhex(spark_encode({text}, {name}))", BINARY)


def _decode(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """`decode(bytes, charset)`, or `decode(value, search, result, ..., default)`."""
    if len(arguments) > 2:
        value, *rest = arguments
        pairs = [(rest[i], rest[i + 1]) for i in range(0, len(rest) - 1, 2)]
        branches = [exp.If(this=exp.NullSafeEQ(this=value, expression=search), true=result) for search, result in pairs]
        return context.typed(exp.Case(ifs=branches, default=rest[-1] if len(rest) % 2 else exp.Null()))
    value, charset = counted(context, node, arguments, 2)
    bytes_, name = context.converted(arguments[0], value, BINARY), context.converted(arguments[1], charset, STRING)
    return Typed(f"spark_decode({bytes_}, {name})", STRING)


def _utf8(text: str, of_bytes: str, kind: type) -> Function:
    """A test or a check of UTF-8. `text`: the SQL for a STRING, which always is UTF-8 here; `of_bytes`: that for a BINARY."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        (value,) = counted(context, node, arguments, 1)
        if value.type == BINARY:
            return Typed(of_bytes.format(value.sql), kind)
        return Typed(text.format(context.converted(arguments[0], value, STRING)), kind)

    return made


_VALID = "CASE WHEN spark_is_utf8({0}) THEN decode({0}) END"

FUNCTIONS: dict[str, Function] = {
    "to_binary": _to_binary("spark_to_binary"),
    "try_to_binary": _to_binary("spark_try_to_binary"),
    "encode": _encode,
    "decode": _decode,
    "is_valid_utf8": _utf8("CASE WHEN ({0}) IS NOT NULL THEN true END", "spark_is_utf8({0})", BOOLEAN),
    "make_valid_utf8": _utf8("{0}", "spark_text({0})", STRING),
    "validate_utf8": _utf8("{0}", "spark_text({0})", STRING),
    "try_validate_utf8": _utf8("{0}", _VALID, STRING),
}
