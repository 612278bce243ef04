"""The dialect in which sqlglot reads and writes types: that of Spark, with the type names of Spark alone; and parsed SQL as text,
as Spark writes it.

sqlglot's own dialect of Spark also reads names of other engines, some with another meaning than in those: INT8 as TINYINT, which
is BIGINT in PostgreSQL. It reads TIMESTAMP WITHOUT TIME ZONE as TIMESTAMP.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import TokenType

from lsmlake.types.type_table import TABLE

_NAMES = {
    **{TokenType[token]: words for row in TABLE for token, words in row.ddl.items()},
    TokenType.DECIMAL: {"DECIMAL", "DEC", "NUMERIC"},
    TokenType.VARCHAR: {"VARCHAR"},
    TokenType.CHAR: {"CHAR", "CHARACTER"},
    TokenType.NULLABLE: set(),
}
"""The names that Spark has for the types that a column can have."""


class SparkTypes(Spark):
    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar = {
            **{word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word in _NAMES.get(token, {word})},
            "TIMESTAMP WITHOUT TIME ZONE": TokenType.TIMESTAMPNTZ,
        }

    class Generator(Spark.Generator):
        TYPE_MAPPING: ClassVar = {  # sqlglot writes TIMESTAMP for TIME
            kind: name for kind, name in Spark.Generator.TYPE_MAPPING.items() if kind is not exp.DataType.Type.TIME
        }

        def parameter_sql(self, expression: exp.Parameter) -> str:
            """As the text has it; Spark's own form is a variable."""
            return f"@{self.sql(expression, 'this')}"


def spelled(node: exp.Expression) -> str:
    """The text of a node. Names of functions keep their case; sqlglot logs nothing about what Spark lacks, since the text is for
    names and messages."""
    return node.sql(SparkTypes, unsupported_level=ErrorLevel.IGNORE, normalize_functions=False, comments=False)
