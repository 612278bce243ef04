"""dbt's own tests of adapters. A class that is named in `AS_THEY_ARE` is run as it is; the others say what is different here."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import dbt.tests.adapter
import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.constraints import test_constraints as constraints
from dbt.tests.adapter.incremental import test_incremental_microbatch as microbatch
from dbt.tests.adapter.simple_seed import fixtures as seed_schema
from dbt.tests.adapter.simple_seed import seeds as seed_files
from dbt.tests.adapter.simple_seed import test_seed
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes
from dbt.tests.util import run_dbt

FOLDER = Path(dbt.tests.adapter.__path__[0])
for path in FOLDER.rglob("*.py"):  # the models of some tests name the database of the target, which a lake does not have
    module = importlib.import_module(".".join(["dbt.tests.adapter", *path.relative_to(FOLDER).with_suffix("").parts]))
    for name, value in list(vars(module).items()):
        if isinstance(value, str) and not name.startswith("__"):
            setattr(module, name, re.sub(r"\{\{ ?target\.database ?\}\}\.", "", value))

AS_THEY_ARE = {
    "basic.test_adapter_methods": ["BaseAdapterMethod"],
    "basic.test_base": ["BaseSimpleMaterializations"],
    "basic.test_empty": ["BaseEmpty"],
    "basic.test_ephemeral": ["BaseEphemeral"],
    "basic.test_generic_tests": ["BaseGenericTests"],
    "basic.test_incremental": ["BaseIncremental", "BaseIncrementalNotSchemaChange", "BaseIncrementalBadStrategy"],
    "basic.test_singular_tests": ["BaseSingularTests"],
    "basic.test_singular_tests_ephemeral": ["BaseSingularTestsEphemeral"],
    "basic.test_snapshot_check_cols": ["BaseSnapshotCheckCols"],
    "basic.test_snapshot_timestamp": ["BaseSnapshotTimestamp"],
    "basic.test_table_materialization": ["BaseTableMaterialization"],
    "basic.test_validate_connection": ["BaseValidateConnection"],
    "incremental.test_incremental_merge_exclude_columns": ["BaseMergeExcludeColumns"],
    "incremental.test_incremental_on_schema_change": ["BaseIncrementalOnSchemaChange"],
    "incremental.test_incremental_predicates": ["BaseIncrementalPredicates"],
    "incremental.test_incremental_unique_id": ["BaseIncrementalUniqueKey"],
    "simple_snapshot.new_record_check_mode": ["BaseSnapshotNewRecordCheckMode"],
    "simple_snapshot.new_record_dbt_valid_to_current": ["BaseSnapshotNewRecordDbtValidToCurrent"],
    "simple_snapshot.new_record_timestamp_mode": ["BaseSnapshotNewRecordTimestampMode"],
    "simple_snapshot.test_ephemeral_snapshot_hard_deletes": [
        "BaseSnapshotEphemeralHardDeletes",
        "BaseSnapshotNewColumnTimestampStrategy",
        "BaseSnapshotNewColumnSpecificCheckCols",
        "BaseSnapshotNewColumnWithDeletes",
    ],
    "simple_snapshot.test_snapshot": ["BaseSimpleSnapshot", "BaseSnapshotCheck"],
    "simple_snapshot.test_various_configs": [
        "BaseSnapshotColumnNames",
        "BaseSnapshotColumnNamesFromDbtProject",
        "BaseSnapshotInvalidColumnNames",
        "BaseSnapshotDbtValidToCurrent",
        "BaseSnapshotMultiUniqueKey",
    ],
    "simple_seed.test_seed": [
        "BaseSeedConfigFullRefreshOff",
        "BaseSeedCustomSchema",
        "BaseSeedWithUniqueDelimiter",
        "BaseSeedWithEmptyDelimiter",
        "BaseSimpleSeedEnabledViaConfig",
        "BaseSeedParsing",
        "BaseTestEmptySeed",
    ],
    "persist_docs.test_persist_docs": [
        "BasePersistDocs",
        "BasePersistDocsColumnMissing",
        "BasePersistDocsAllColumnsMissing",
        "BasePersistDocsQuotedColumnCaseSensitive",
        "BasePersistDocsQuotedDescriptionNotAppliedOnMismatch",
        "BasePersistDocsCommentOnQuotedColumn",
    ],
    "unit_testing.test_case_insensitivity": ["BaseUnitTestCaseInsensivity"],
    "unit_testing.test_invalid_input": ["BaseUnitTestInvalidInput"],
    "constraints.test_constraints": ["BaseIncrementalForeignKeyConstraint"],
    "store_test_failures_tests.test_store_test_failures": ["BaseStoreTestFailures", "BaseStoreTestFailuresLimit"],
    "store_test_failures_tests.basic": [
        "StoreTestFailuresAsInteractions",
        "StoreTestFailuresAsProjectLevelOff",
        "StoreTestFailuresAsProjectLevelView",
        "StoreTestFailuresAsProjectLevelEphemeral",
        "StoreTestFailuresAsGeneric",
        "StoreTestFailuresAsExceptions",
    ],
    "query_comment.test_query_comment": [
        "BaseQueryComments",
        "BaseMacroQueryComments",
        "BaseMacroArgsQueryComments",
        "BaseMacroInvalidQueryComments",
        "BaseNullQueryComments",
        "BaseEmptyQueryComments",
    ],
    "concurrency.test_concurrency": ["TestConcurenncy"],
    "relations.test_changing_relation_type": ["BaseChangeRelationTypeValidator"],
    "relations.test_dropping_schema_named": ["BaseDropSchemaNamed"],
    "dbt_clone.test_dbt_clone": ["BaseCloneNotPossible", "BaseCloneSameTargetAndState"],
    "dbt_show.test_dbt_show": ["BaseShowLimit"],
    "ephemeral.test_ephemeral": ["BaseEphemeralErrorHandling"],
    "empty.test_empty": ["BaseTestEmpty", "BaseTestEmptyInlineSourceRef"],
    "sample_mode.test_sample_mode": ["BaseSampleModeTest"],
    "utils.data_types.test_type_bigint": ["BaseTypeBigInt"],
    "utils.data_types.test_type_boolean": ["BaseTypeBoolean"],
    "utils.data_types.test_type_numeric": ["BaseTypeNumeric"],
    "utils.data_types.test_type_string": ["BaseTypeString"],
    "utils.data_types.test_type_timestamp": ["BaseTypeTimestamp"],
    "utils.test_any_value": ["BaseAnyValue"],
    "utils.test_array_append": ["BaseArrayAppend"],
    "utils.test_array_concat": ["BaseArrayConcat"],
    "utils.test_array_construct": ["BaseArrayConstruct"],
    "utils.test_bool_or": ["BaseBoolOr"],
    "utils.test_cast": ["BaseCast"],
    "utils.test_cast_bool_to_text": ["BaseCastBoolToText"],
    "utils.test_concat": ["BaseConcat"],
    "utils.test_date_spine": ["BaseDateSpine"],
    "utils.test_date_trunc": ["BaseDateTrunc"],
    "utils.test_dateadd": ["BaseDateAdd"],
    "utils.test_datediff": ["BaseDateDiff"],
    "utils.test_equals": ["BaseEquals"],
    "utils.test_escape_single_quotes": ["BaseEscapeSingleQuotesBackslash"],
    "utils.test_except": ["BaseExcept"],
    "utils.test_generate_series": ["BaseGenerateSeries"],
    "utils.test_get_powers_of_two": ["BaseGetPowersOfTwo"],
    "utils.test_hash": ["BaseHash"],
    "utils.test_intersect": ["BaseIntersect"],
    "utils.test_last_day": ["BaseLastDay"],
    "utils.test_length": ["BaseLength"],
    "utils.test_listagg": ["BaseListagg"],
    "utils.test_null_compare": ["BaseMixedNullCompare", "BaseNullCompare"],
    "utils.test_position": ["BasePosition"],
    "utils.test_replace": ["BaseReplace"],
    "utils.test_right": ["BaseRight"],
    "utils.test_safe_cast": ["BaseSafeCast"],
    "utils.test_source_freshness_custom_info": ["BaseCalculateFreshnessMethod"],
    "utils.test_split_part": ["BaseSplitPart"],
    "utils.test_string_literal": ["BaseStringLiteral"],
    "utils.test_validate_sql": ["BaseValidateSqlMethod"],
}
"""Module of dbt's tests -> its classes that pass without a change."""

for where, classes in AS_THEY_ARE.items():
    for base in classes:
        made = getattr(importlib.import_module(f"dbt.tests.adapter.{where}"), base)
        title = f"Test{base.removeprefix('Base').removeprefix('Test')}"
        globals()[title] = type(title, (made,), {"__module__": __name__})


# -- the catalog ------------------------------------------------------------------------------------------------------


class AnyStatistics(dict):
    """Equal to the statistics that tables have here: dbt's tests want the same ones of all relations."""

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, dict)
        shown = {name for name, one in other.items() if one["include"] and name != "has_stats"}
        return shown in (set(), {"rows", "bytes", "files", "last_modified"})

    __hash__ = None  # type: ignore[assignment]


def catalog_of(expected: dict) -> dict:
    """The catalog as dbt's tests expect it, with the statistics of this adapter."""
    for node in (*expected["nodes"].values(), *expected["sources"].values()):
        node["stats"] = AnyStatistics()
    return expected


TYPES = {"id_type": "BIGINT", "text_type": "STRING", "time_type": "TIMESTAMP", "view_type": "view", "table_type": "table"}


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project) -> dict:
        return catalog_of(expected_catalog.base_expected_catalog(project, role=None, model_stats={}, **TYPES))


class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project) -> dict:
        numbers = {"bigint_type": "BIGINT"}
        made = expected_catalog.expected_references_catalog(project, role=None, model_stats={}, **TYPES, **numbers)
        return catalog_of(made)


# -- batches replace the rows of their time: unique_key is refused ------------------------------------------------------


class TestMicrobatch(microbatch.BaseMicrobatch):
    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return microbatch._microbatch_model_sql.replace("unique_key='id', ", "")


# -- seeds: views stay when a table is replaced, and a name has no points -----------------------------------------------


class TestBasicSeeds(test_seed.BaseBasicSeedTests):
    def test_simple_seed_full_refresh_flag(self, project) -> None:
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_result=run_dbt(["seed", "--full-refresh"]), project=project, exists=True)


class TestSeedConfigFullRefreshOn(test_seed.BaseSeedConfigFullRefreshOn):
    def test_simple_seed_full_refresh_config(self, project) -> None:
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_result=run_dbt(["seed", "--full-refresh"]), project=project, exists=True)


class TestSeedWithWrongDelimiter(test_seed.BaseSeedWithWrongDelimiter):
    def test_seed_with_wrong_delimiter(self, project) -> None:
        result = run_dbt(["seed"], expect_pass=False)
        assert "Database Error in seed" in result.results[0].message


class TestSimpleSeedWithBOM(test_seed.BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project) -> None:
        project.run_sql(seed_files.seeds__expected_sql)
        source = FOLDER / "simple_seed" / "seed_bom.csv"
        (Path(project.project_root) / "seeds" / "seed_bom.csv").write_bytes(source.read_bytes())
        assert source.read_bytes().startswith(b"\xef\xbb\xbf")


class TestSeedSpecificFormats(test_seed.BaseSeedSpecificFormats):
    @pytest.fixture(scope="class")
    def seeds(self, test_data_dir) -> dict[str, str]:
        return {"big_seed.csv": self._make_big_seed(None) or BIG, "seed_unicode.csv": seed_files.seed__unicode_csv}

    @staticmethod
    def _make_big_seed(_: object) -> str:
        return BIG

    def test_simple_seed(self, project) -> None:
        assert len(run_dbt(["seed"])) == 2


BIG = "seed_id\n" + "\n".join(map(str, range(1, 20_001))) + "\n"


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        types = {
            "integer": "BIGINT",
            "text": "STRING",
            "timestamp without time zone": "TIMESTAMP",
            "boolean": "BOOLEAN",
            "date": "DATE",
        }
        given = re.sub(r"(?<=type: )[a-z ]+", lambda found: types[found[0]], seed_schema.properties__schema_yml)
        return {"schema.yml": given}

    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        return {"seed_id_str": "string", "looks_like_a_bool": "string", "looks_like_a_date": "string"}


# -- types --------------------------------------------------------------------------------------------------------------


class TestUnitTestingTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "1"],
            ["2.0", "2.0"],
            ["'12345'", "12345"],
            ["'string'", "string"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
            ["TIMESTAMP_NTZ '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["'1'::decimal(10,2)", "1"],
            ["""'{"bar": "baz", "balance": 7.77, "active": false}'""", """'{"bar": "baz", "balance": 7.77, "active": false}'"""],
        ]


# -- contracts: NOT NULL and primary keys are enforced, dbt warns of the others -----------------------------------------


class _Types:
    @pytest.fixture
    def string_type(self) -> str:
        return "STRING"

    @pytest.fixture
    def int_type(self) -> str:
        return "INT"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "int", "INT"],
            ["'1'", "string", "STRING"],
            ["true", "boolean", "BOOLEAN"],
            ["timestamp '2013-11-03 00:00:00-07'", "timestamp", "TIMESTAMP"],
            ["array('a', 'b', 'c')", "array<string>", "ARRAY<STRING>"],
            ["cast('1' as decimal(5,2))", "decimal(5,2)", "DECIMAL(5,2)"],
        ]


class TestTableConstraintsColumnsEqual(_Types, constraints.BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(_Types, constraints.BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(_Types, constraints.BaseIncrementalConstraintsColumnsEqual):
    pass


DDL = """
create or replace table <model_identifier> (id integer not null, color string, date_day string)
tblproperties ('primary-key' = 'id')
as select id, color, date_day from (
  -- depends_on: <foreign_key_model_identifier>
  select 'blue' as color, 1 as id, '2019-01-01' as date_day
) as model_subq
"""
QUOTED = """
create or replace table <model_identifier> (id integer not null, `from` string not null, date_day string)
as select id, `from`, date_day from (select 'blue' as `from`, 1 as id, '2019-01-01' as date_day) as model_subq
"""


class _Enforced:
    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return DDL

    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["column 'id'", "a null in a NOT NULL column"]


class TestTableConstraintsRuntimeDdlEnforcement(_Enforced, constraints.BaseConstraintsRuntimeDdlEnforcement):
    pass


class TestIncrementalConstraintsRuntimeDdlEnforcement(_Enforced, constraints.BaseIncrementalConstraintsRuntimeDdlEnforcement):
    pass


class TestModelConstraintsRuntimeEnforcement(_Enforced, constraints.BaseModelConstraintsRuntimeEnforcement):
    pass


class TestTableConstraintsRollback(_Enforced, constraints.BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(_Enforced, constraints.BaseIncrementalConstraintsRollback):
    pass


class TestConstraintQuotedColumn(constraints.BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return QUOTED
