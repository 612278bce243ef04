"""Intake with Spark attached: texts of a DataFrame and of files have the same values, and times those of the session's zone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from intake_cases import CASES
from spark_support import configured

from lsmlake.errors import InvalidData

pytestmark = [pytest.mark.spark, pytest.mark.connect]

TEXTS = {f"c{number}": case for number, case in enumerate(CASES.values()) if case.text and '"' not in case.text}
COLUMNS = ", ".join(f"{name} {case.type}" for name, case in TEXTS.items())


def dataframe(spark, path: Path) -> object:
    schema = "k BIGINT, " + ", ".join(f"{name} STRING" for name in TEXTS)
    return spark.createDataFrame([(1, *(case.text for case in TEXTS.values())), (2, *(None for _ in TEXTS))], schema)


def csv(spark, path: Path) -> str:
    records = ["k", *TEXTS], ["1", *(case.text for case in TEXTS.values())], ["2", *("" for _ in TEXTS)]
    path.joinpath("a.csv").write_text("".join(";".join(record) + "\n" for record in records), encoding="utf-16")
    return str(path / "a.csv")


def array(spark, path: Path) -> str:
    values = (f'"{name}": {json.dumps(case.value) if case.json is None else case.json}' for name, case in TEXTS.items())
    path.joinpath("a.json").write_text('[{"k": 1, ' + ", ".join(values) + '}, {"k": 2}]')
    return str(path / "a.json")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_texts_have_the_values_of_the_session(spark, spark_lake, tmp_path, zone):
    with configured(spark, **{"spark.sql.session.timeZone": zone}):
        for number, source in enumerate((dataframe, csv, array)):
            table = spark_lake.create_table(f"d.t{number}", f"k BIGINT NOT NULL, {COLUMNS}", primary_key=["k"])
            table.upsert(source(spark, tmp_path), cast=True)
            first, second = table.scan().to_arrow().sort_by("k").to_pylist()
            assert first == {"k": 1, **{name: case.expected(zone) for name, case in TEXTS.items()}}, source.__name__
            assert second == {"k": 2, **dict.fromkeys(TEXTS)}


def test_options_of_files_are_refused_for_a_dataframe(spark, spark_lake):
    table = spark_lake.create_table("d.t", "k BIGINT NOT NULL", primary_key=["k"])
    for write in (table.upsert, table.delete_keys, lambda data, **how: spark_lake.create_table_from("d.u", data, **how)):
        for options in ({"delimiter": ";"}, {"encoding": "latin-1"}, {"null_values": ["NA"]}):
            with pytest.raises(InvalidData, match=f"{next(iter(options))} does not apply to a DataFrame"):
                write(spark.range(3).withColumnRenamed("id", "k"), **options)
    assert spark_lake.tables("d") == ["t"] and table.scan().count() == 0
