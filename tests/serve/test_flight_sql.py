"""SQL over Arrow Flight with the driver of ADBC: rows, parameters, questions about the lake, errors, limits, many clients."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import adbc_driver_flightsql.dbapi as dbapi
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import Error, OperationalError, ProgrammingError

import lsmlake
from lsmlake.errors import InvalidQuery
from lsmlake.serve.flight_sql import flight_statements, sql_info
from lsmlake.serve.flight_sql.flight_messages import (
    CommandGetPrimaryKeys,
    CommandStatementQuery,
    CommandStatementUpdate,
    TicketStatementQuery,
    packed,
)
from lsmlake.serve.flight_sql.flight_server import FlightSqlServer
from lsmlake.serve.serve_settings import ServeSettings

BIG = 400_000
HEAVY = "SELECT count(*) FROM sales.big a JOIN sales.big b ON a.id % 100 = b.id % 100 WHERE a.id + b.id > 5"
"""Takes longer than any limit here."""
WIDE = "SELECT a.id, a.v, b.v FROM sales.big a, sales.big b WHERE b.id < 50"
"""Has more rows than any buffer between server and client."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lsmlake.Lake:
    lake = lsmlake.connect(tmp_path_factory.mktemp("flight"))
    for name in ("sales", "shop"):
        lake.create_database(name)
    orders = lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING, w DECIMAL(9, 2)", primary_key=["id"])
    orders.upsert([{"id": id, "v": f"v{id}", "w": id} for id in range(10)], cast=True)
    lake.create_table("shop.or_ders", "a INT NOT NULL, b INT NOT NULL", primary_key=["b", "a"])
    lake.create_table("shop.other", "a INT")
    lake.sql("CREATE VIEW sales.small AS SELECT id FROM sales.orders WHERE id < 3")
    big = lake.create_table("sales.big", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 1})
    big.upsert(pa.table({"id": np.arange(BIG), "v": ["x" * 20] * BIG}))
    return lake


@contextmanager
def served(lake: lsmlake.Lake, **settings: object) -> Iterator[FlightSqlServer]:
    server = FlightSqlServer(lake, ServeSettings(flight_port=0, **settings))
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def server(lake) -> Iterator[FlightSqlServer]:
    with served(lake) as server:
        yield server


@contextmanager
def connected(server: FlightSqlServer, **options: str):
    """A cursor of a connection of its own."""
    with (
        closing(dbapi.connect(server.address, db_kwargs=options, autocommit=True)) as connection,
        closing(connection.cursor()) as one,
    ):
        yield one


@pytest.fixture
def cursor(server):
    with connected(server) as cursor:
        yield cursor


def rows(cursor, text: str, parameters=None) -> list[tuple]:
    cursor.execute(text, parameters)
    return cursor.fetchall()


# -- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM sales.orders ORDER BY id",
        "SELECT v, sum(w) AS s FROM sales.orders WHERE id > 4 GROUP BY v ORDER BY v",
        "SELECT id, v FROM sales.orders WHERE id < 0",
        "SELECT map('a', 1) AS m, array(1, 2) AS l, struct(1 AS x) AS s",
        "SELECT DATE '2026-01-01' AS d, TIMESTAMP '2026-01-01 00:00:00' AS t",
        "SELECT * FROM sales.small ORDER BY id",
        "SELECT count(*) AS n FROM sales.orders VERSION AS OF 1",
        "SHOW TABLES IN sales",
        "DESCRIBE sales.orders",
        "SELECT table_name FROM information_schema.tables ORDER BY table_name",
        "SELECT snapshot_id FROM sales.orders$snapshots",
        "EXPLAIN SELECT * FROM sales.orders",
        "VALUES (1), (2)",
    ],
)
def test_rows_are_those_of_the_lake(lake, cursor, text: str):
    cursor.execute(text)
    found, expected = cursor.fetch_arrow_table(), lake.sql(text).to_arrow()
    assert found.equals(expected) and found.schema.equals(expected.schema)


def test_a_large_result_comes_in_batches_that_drivers_take(lake, server):
    """With the driver's limit of a message at 4 MB, and rows of 1 kB, of which DuckDB gives 16,384 at a time."""
    with connected(server, **{DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(4 << 20)}) as cursor:
        cursor.execute("SELECT id, repeat(v, 50) AS v FROM sales.big WHERE id < 40000")
        reader = cursor.fetch_record_batch()
        sizes = [batch.nbytes for batch in reader]
    assert sum(sizes) > 40_000_000 and max(sizes) < 2 << 20


def test_columns_of_a_query_are_known_before_it_runs(server, cursor):
    schema = cursor.adbc_execute_schema("SELECT id, w FROM sales.orders")
    assert schema == pa.schema([("id", pa.int64()), ("w", pa.decimal128(9, 2))])
    with flight.connect(server.address) as client, pytest.raises(pa.ArrowException, match="only a query has columns"):
        client.get_schema(flight.FlightDescriptor.for_command(packed(CommandStatementQuery("SHOW TABLES IN sales"))))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("SELECT id FROM sales.orders WHERE id > ? AND v <> ? ORDER BY id", (6, "v8"), [(7,), (9,)]),
        ("SELECT id FROM sales.orders WHERE id = :id OR id = :id + 1 ORDER BY id", (3,), [(3,), (4,)]),
        ("SELECT ? AS a, ? AS b", (None, 1.5), [(None, 1.5)]),
        ("SELECT v FROM sales.orders WHERE v = ?", ("v1' OR '1' = '1",), []),
    ],
)
def test_parameters_are_values(cursor, text: str, values: tuple, expected: list):
    assert rows(cursor, text, values) == expected


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT ? AS a, id FROM sales.orders", [pa.string()]),
        ("SELECT * FROM sales.orders o WHERE o.id > ? AND -? < w OR v LIKE ?", [pa.int64(), pa.decimal128(9, 2), pa.string()]),
        ("SELECT * FROM sales.orders WHERE id BETWEEN ? AND :b OR id IN (1, (:b)) LIMIT ?", [pa.int64(), pa.int64(), pa.int32()]),
        ("SELECT * FROM sales.orders o JOIN shop.other t ON o.id = t.a WHERE t.a = ? AND a < ?", [pa.int32(), pa.int32()]),
        ("SELECT * FROM (SELECT id AS x FROM sales.small) WHERE x = ?", [pa.string()]),
        ("SELECT * FROM sales.small WHERE id = ?", [pa.int64()]),
        ("SELECT * FROM sales.missing WHERE id = ?", [pa.string()]),
        ("INSERT INTO sales.orders VALUES (?, 'x', ?), (?, ?, 1)", [pa.int64(), pa.decimal128(9, 2), pa.int64(), pa.string()]),
        ("INSERT INTO sales.orders (w, id) VALUES (?, ?)", [pa.decimal128(9, 2), pa.int64()]),
        ("UPDATE sales.orders SET w = ? WHERE id = ?", [pa.decimal128(9, 2), pa.int64()]),
        ("DELETE FROM sales.orders WHERE v = ?", [pa.string()]),
    ],
)
def test_parameters_have_the_types_of_the_columns_that_they_meet(lake, text: str, types: list[pa.DataType]):
    statements = flight_statements.ClientStatements(lake, ServeSettings(flight_port=0, writes=True))
    _, prepared = statements.prepare(text)
    assert statements.parameter_types(prepared) == types


def test_values_with_the_names_of_parameters_are_bound_by_name(cursor):
    text = "SELECT :b AS b, :a AS a"
    assert rows(cursor, text, pa.record_batch({"a": [1], "b": [2]})) == [(2, 1)]
    assert rows(cursor, text, pa.record_batch({"x": [1], "y": [2]})) == [(1, 2)]
    assert rows(cursor, "SELECT ? AS b, ? AS a", pa.record_batch({"a": [1], "b": [2]})) == [(1, 2)]
    with pytest.raises(Error, match="values have the names of parameters, but not their places"):
        rows(cursor, text, pa.record_batch({"a": [1], "y": [2]}))


def test_a_driver_is_told_the_types_of_parameters(cursor):
    found = cursor.adbc_prepare("SELECT v FROM sales.orders WHERE id = ? AND v = :name")
    assert found == pa.schema([("1", pa.int64()), ("name", pa.string())])


def test_a_prepared_statement_can_be_executed_again(cursor):
    text = "SELECT v FROM sales.orders WHERE id = ?"
    assert [rows(cursor, text, (id,)) for id in (1, 5, 99)] == [[("v1",)], [("v5",)], []]


@pytest.mark.parametrize(("values", "found"), [((), "2"), ((1,), "1"), ((1, 2, 3), "3")])
def test_another_number_of_values_is_refused(cursor, values: tuple, found: str):
    with pytest.raises(
        Error, match=r"has no value|another number of values than the statement has parameters, expected 2, found"
    ):
        rows(cursor, "SELECT ? + ?", values)


# -- questions about the lake -----------------------------------------------------------------------------------------


def test_the_tables_of_the_lake_are_listed(server, cursor):
    connection = cursor.connection
    (catalog,) = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
    found = {
        (schema["db_schema_name"], table["table_name"], table["table_type"]): [
            one["column_name"] for one in table["table_columns"]
        ]
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    assert catalog["catalog_name"] == "lsmlake"
    assert found == {
        ("sales", "big", "TABLE"): ["id", "v"],
        ("sales", "orders", "TABLE"): ["id", "v", "w"],
        ("sales", "small", "VIEW"): ["id"],
        ("shop", "or_ders", "TABLE"): ["a", "b"],
        ("shop", "other", "TABLE"): ["a"],
    }
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    schema = connection.adbc_get_table_schema("orders", db_schema_filter="sales")
    assert [(field.name, str(field.type), field.nullable) for field in schema] == [
        ("id", "int64", False),
        ("v", "string", True),
        ("w", "decimal128(9, 2)", True),
    ]
    assert schema.field("w").metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"DECIMAL(9, 2)".replace(b" ", b"")


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"table_name_filter": "or_ders"}, ["or_ders"]),
        ({"table_name_filter": "or%"}, ["or_ders", "orders"]),
        ({"table_name_filter": r"or\_%"}, ["or_ders"]),
        ({"db_schema_filter": "s_les", "table_name_filter": "%"}, ["big", "orders", "small"]),
        ({"table_types_filter": ["VIEW"]}, ["small"]),
        ({"table_name_filter": "%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b"}, []),
        ({"catalog_filter": "other"}, []),
        ({"table_name_filter": ".*"}, []),
    ],
)
def test_lists_are_filtered_by_patterns(cursor, filters: dict, names: list[str]):
    listed = cursor.connection.adbc_get_objects(depth="tables", **filters).read_all().to_pylist()
    found = [
        table["table_name"] for one in listed for schema in one["catalog_db_schemas"] for table in schema["db_schema_tables"]
    ]
    assert sorted(found) == names


def test_primary_keys_are_shown(server):
    with flight.connect(server.address) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(packed(CommandGetPrimaryKeys(None, "shop", "or_ders"))))
        found = client.do_get(info.endpoints[0].ticket).read_all()
    assert found.schema.equals(info.schema)
    assert [(row["column_name"], row["key_sequence"]) for row in found.to_pylist()] == [("a", 2), ("b", 1)]


def test_facts_about_the_server_are_told(cursor):
    told = cursor.connection.adbc_get_info()
    assert (told["vendor_name"], told["vendor_version"]) == ("lsmlake", lsmlake.__version__)


def test_calls_that_are_no_flight_sql_are_refused_in_plain_words(server):
    """And the facts do not name what is refused."""
    with flight.connect(server.address) as client:
        for call, why in {
            (lambda: client.get_flight_info(flight.FlightDescriptor.for_path("orders"))): "the descriptor has no command",
            (lambda: list(client.list_flights())): "this server lists no flights",
            (lambda: client.do_exchange(flight.FlightDescriptor.for_command(b""))[1].read_all()): "this server exchanges no rows",
            (lambda: list(client.do_action(flight.Action("CancelQuery", b"")))): "this server does not support an action",
        }.items():
            with pytest.raises(pa.ArrowException, match=why) as raised:
                call()
            assert "Traceback" not in str(raised.value)
    assert sql_info.facts(ServeSettings())[9] is False


# -- errors and what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELEC 1", "character 7 of 'SELEC 1': the text is not SQL"),
        ("SELECT * FROM sales.none", "there is no table 'sales.none'"),
        ("SELECT nothing FROM sales.orders", "nothing"),
        ("SELECT id / 0 FROM sales.orders", "division by zero"),
        ("SELECT * FROM csv.`/etc/passwd`", "a server reads no files but those of tables"),
        ("SELECT * FROM parquet.`*`", "a server reads no files but those of tables"),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
        ("EXPLAIN ANALYZE SELECT 1", "runs a query without the limits of a server"),
        ("", "SQL"),
        ("SELECT 1; SELECT 2", "SQL"),
        ("SELECT '" + "(" * 5000, "SQL"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, ""),
    ],
)
def test_a_wrong_statement_is_refused_in_plain_words(cursor, text: str, why: str):
    with pytest.raises(Error) as raised:
        rows(cursor, text)
    assert why in str(raised.value) and "Traceback" not in str(raised.value) and ".py" not in str(raised.value)
    assert rows(cursor, "SELECT 1") == [(1,)]


def put(client: flight.FlightClient, command: object) -> None:
    """Sends a command in both ways in which clients send commands."""
    descriptor = flight.FlightDescriptor.for_command(packed(command))
    if isinstance(command, CommandStatementQuery):
        client.get_flight_info(descriptor)
        return
    writer, reader = client.do_put(descriptor, pa.schema([]))
    with writer:
        writer.done_writing()
        reader.read()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO sales.orders VALUES (100, 'x', 1)",
        "DELETE FROM sales.orders WHERE id = 1",
        "UPDATE sales.orders SET v = 'x' WHERE id = 1",
        "TRUNCATE TABLE sales.orders",
        "DROP TABLE sales.orders",
        "CREATE TABLE sales.neu (a INT)",
        "ALTER TABLE sales.orders ADD COLUMN x INT",
        "CREATE VIEW sales.x AS SELECT 1",
        "CALL compact('sales.orders')",
        "USE sales",
        "COPY INTO sales.orders FROM '/etc' FILEFORMAT = CSV",
        "CREATE TEMPORARY VIEW x AS SELECT 1",
    ],
)
def test_a_read_only_server_changes_nothing(lake, server, cursor, text: str):
    before = (lake.tables(), lake.table("sales.orders").version.number)
    with pytest.raises(ProgrammingError, match="this server is read-only"):
        cursor.execute(text)
    with connected(server) as other, pytest.raises(ProgrammingError, match="this server is read-only"):
        other.executemany(text, [(1,)])
    with flight.connect(server.address) as client:
        for command in (CommandStatementQuery(text), CommandStatementUpdate(text)):
            with pytest.raises(flight.FlightUnauthorizedError, match="this server is read-only"):
                put(client, command)
    assert (lake.tables(), lake.table("sales.orders").version.number) == before


def test_a_result_is_fetched_once(server):
    with flight.connect(server.address) as client:
        command = flight.FlightDescriptor.for_command(packed(CommandStatementQuery("SELECT 1 AS a")))
        ticket = client.get_flight_info(command).endpoints[0].ticket
        assert client.do_get(ticket).read_all().to_pylist() == [{"a": 1}]
        for wrong in (ticket, flight.Ticket(packed(TicketStatementQuery(b"x"))), flight.Ticket(b"\xff"), flight.Ticket(b"")):
            with pytest.raises(flight.FlightServerError, match=r"no such result|no message of Flight SQL|does not support"):
                client.do_get(wrong).read_all()
        with pytest.raises(flight.FlightServerError, match="there are no transactions"):
            client.get_flight_info(flight.FlightDescriptor.for_command(packed(CommandStatementQuery("SELECT 1", b"t"))))
        with pytest.raises(flight.FlightServerError, match=r"does not support an action, .* found BeginTransaction"):
            list(client.do_action(flight.Action("BeginTransaction", b"")))
        assert {one.type for one in client.list_actions()} == {"CreatePreparedStatement", "ClosePreparedStatement"}


def test_a_result_that_nobody_fetches_is_given_up(lake):
    with served(lake, statement_seconds=1) as server, flight.connect(server.address) as client:
        command = flight.FlightDescriptor.for_command(packed(CommandStatementQuery("SELECT 1 AS a")))
        ticket = client.get_flight_info(command).endpoints[0].ticket
        time.sleep(2.5)
        with pytest.raises(flight.FlightServerError, match="no such result"):
            client.do_get(ticket).read_all()


def test_the_number_of_results_is_limited(lake, monkeypatch):
    monkeypatch.setattr(flight_statements, "OPEN_MAX", 3)
    with served(lake) as server, flight.connect(server.address) as client:
        command = flight.FlightDescriptor.for_command(packed(CommandStatementQuery("SELECT 1 AS a")))
        tickets = [client.get_flight_info(command).endpoints[0].ticket for _ in range(3)]
        with pytest.raises(flight.FlightUnavailableError, match="the server keeps no more results, expected at most 3"):
            client.get_flight_info(command)
        client.do_get(tickets[0]).read_all()
        client.get_flight_info(command)


# -- tokens and TLS ---------------------------------------------------------------------------------------------------

HEADER = DatabaseOptions.AUTHORIZATION_HEADER.value


@pytest.mark.parametrize("name", ["schema", "timezone", "query_timeout"])
def test_a_property_of_a_connection_that_has_no_effect_is_refused(server, name: str):
    with (
        connected(server, **{f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}{name}": "sales"}) as cursor,
        pytest.raises(Error, match=rf"does not obey, found \['{name}'\]; leave it out"),
    ):
        rows(cursor, "SELECT 1")


def test_headers_of_proxies_and_of_tracing_pass(server):
    headers = {"x-forwarded-for": "10.0.0.1", "cf-ray": "1", "traceparent": "00-1-1-01", "via": "1.1 proxy", "cookie": "a=b"}
    prefix = DatabaseOptions.RPC_CALL_HEADER_PREFIX.value
    with connected(server, **{f"{prefix}{name}": value for name, value in headers.items()}) as cursor:
        assert rows(cursor, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "secret-token", "Basic secret-token"])
def test_every_call_needs_the_token(lake, header: str | None):
    with served(lake, tokens=("secret-token",)) as server:
        given = {} if header is None else {HEADER: header}
        with pytest.raises(Error, match="bears no token, or a wrong one"), connected(server, **given) as cursor:
            rows(cursor, "SELECT 1")
        with connected(server, **{HEADER: "Bearer secret-token"}) as cursor:
            assert rows(cursor, "SELECT 1") == [(1,)]
        with flight.connect(server.address) as client, pytest.raises(flight.FlightUnauthenticatedError):
            list(client.list_actions())


def test_a_port_that_is_taken_is_named(server, lake):
    with pytest.raises(InvalidQuery, match=f"grpc://127.0.0.1:{server.port}: cannot serve Flight SQL here"):
        FlightSqlServer(lake, ServeSettings(flight_port=server.port))


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_statement_that_takes_too_long_is_ended(lake):
    with served(lake, statement_seconds=1) as server, connected(server) as cursor:
        start = time.monotonic()
        with pytest.raises(OperationalError, match="the statement took longer than the server allows"):
            rows(cursor, HEAVY)
        assert time.monotonic() - start < 20
        assert rows(cursor, "SELECT 1") == [(1,)]


def test_a_client_that_fetches_too_slowly_gets_an_error_and_not_fewer_rows(lake):
    with served(lake, statement_seconds=1) as server, connected(server) as cursor:
        cursor.execute(WIDE)
        reader = cursor.fetch_record_batch()
        reader.read_next_batch()
        time.sleep(2.5)
        with pytest.raises((Error, OSError), match="the statement took longer than the server allows"):
            while True:
                reader.read_next_batch()


def test_a_statement_gets_no_more_memory_than_the_server_allows(lake):
    greedy = "SELECT length(array_join(collect_list(repeat(v, 20)), ',')) AS n FROM sales.big"
    with served(lake, statement_memory=64 << 20) as server, connected(server) as cursor:
        with pytest.raises(Error, match=r"not enough memory.*with --memory"):
            rows(cursor, greedy)
        assert rows(cursor, "SELECT count(*) FROM sales.big") == [(BIG,)]
    with served(lake) as server, connected(server) as cursor:
        assert rows(cursor, greedy)[0][0] > BIG * 400


def test_a_client_that_cancels_ends_its_statement(lake, server):
    ended = threading.Event()
    with connected(server) as cursor:

        def press() -> None:
            while not ended.wait(0.3):  # a press before the statement runs is lost
                cursor.adbc_cancel()

        thread = threading.Thread(target=press)
        thread.start()
        try:
            with pytest.raises(OperationalError, match=r"CANCELLED|cancel"):
                rows(cursor, HEAVY)
        finally:
            ended.set()
            thread.join()
    ends = time.monotonic() + 120
    while server._statements.fetched and time.monotonic() < ends:
        time.sleep(0.05)
        gc.collect()  # the error of a statement that has ended can hold it by its traceback until then
    assert not server._statements.fetched, "the statement goes on although its client is gone"


def test_the_server_ends_although_a_client_stops_fetching(lake):
    with served(lake) as server, flight.connect(server.address) as client:
        command = flight.FlightDescriptor.for_command(packed(CommandStatementQuery(WIDE)))
        reader = client.do_get(client.get_flight_info(command).endpoints[0].ticket)
        reader.read_chunk()
        start = time.monotonic()
        server.end()
        assert time.monotonic() - start < 10
        with pytest.raises((flight.FlightError, pa.ArrowException, OSError)):
            while True:
                reader.read_chunk()


def test_many_clients_get_their_own_rows(server):
    wrong: list[object] = []

    def ask(number: int) -> None:
        try:
            with connected(server) as cursor:
                for id in range(number, number + 3):
                    found = rows(cursor, "SELECT id, v FROM sales.orders WHERE id = ?", (id % 10,))
                    if found != [(id % 10, f"v{id % 10}")]:
                        wrong.append(found)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- changes ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def writable(tmp_path):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 1})
    with served(lake, writes=True) as server, connected(server) as cursor:
        yield lake, cursor


def test_changes_are_commits(writable):
    lake, cursor = writable
    cursor.executemany("INSERT INTO sales.orders VALUES (?, ?)", [(1, "a"), (2, "b")])
    assert cursor.rowcount == 2
    assert rows(cursor, "UPDATE sales.orders SET v = 'c' WHERE id > ?", (1,))[0][0] == 1
    assert rows(cursor, "DELETE FROM sales.orders WHERE id = 1")[0][0] == 1
    assert lake.table("sales.orders").to_arrow().to_pylist() == [{"id": 2, "v": "c"}]
    assert [snapshot for snapshot in lake.table("sales.orders").snapshots()["snapshot_id"].to_pylist()][-1] >= 4
    rows(cursor, "CREATE DATABASE shop")
    rows(cursor, "CREATE TABLE shop.t (a INT)")
    rows(cursor, "DROP TABLE shop.t")
    assert lake.databases() == ["sales", "shop"] and lake.tables("shop") == []
    rows(cursor, "CALL compact('sales.orders')")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("USE sales", "share its session"),
        ("CREATE TEMPORARY VIEW x AS SELECT 1", "share its session"),
        ("COPY INTO sales.orders FROM '/etc' FILEFORMAT = CSV", "reads no files but those of tables"),
        ("INSERT INTO sales.orders SELECT _c0, _c1 FROM csv.`/etc/passwd`", "reads no files but those of tables"),
        ("CREATE TABLE sales.x AS SELECT * FROM json.`/tmp`", "reads no files but those of tables"),
        ("CALL import_parquet('/tmp', 'sales.x')", "nothing but its warehouse"),
        ("CALL copy('sales.orders', '/tmp/elsewhere')", "nothing but its warehouse"),
        ("CALL publish_iceberg('sales.orders', map('type', 'x'), 'a.b')", "nothing but its warehouse"),
    ],
)
def test_what_leads_out_of_the_warehouse_is_refused(writable, text: str, why: str):
    lake, cursor = writable
    with pytest.raises(Error, match=why):
        rows(cursor, text)
    assert lake.tables() == ["sales.orders"]
    lake.sql("CREATE TEMPORARY VIEW x AS SELECT 1 AS a")  # the session of the lake itself is not that of clients
    assert lake.sql("SELECT * FROM x").fetchall() == [(1,)]


def test_a_published_table_is_published_by_call(writable):
    _, cursor = writable
    rows(cursor, "INSERT INTO sales.orders VALUES (1, 'a')")
    assert rows(cursor, "CALL publish_iceberg('sales.orders')")[0][0].endswith("v1.metadata.json")


# -- rows in bulk -----------------------------------------------------------------------------------------------------


def test_rows_in_bulk_are_one_commit(writable):
    lake, cursor = writable
    orders = lake.table("sales.orders")
    batches = [pa.record_batch({"id": pa.array([id, id + 1], pa.int32()), "v": ["a", "b"]}) for id in (1, 3)]
    sent = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert cursor.adbc_ingest("orders", sent, mode="append", db_schema_name="sales") == 4
    assert cursor.adbc_ingest("orders", pa.table({"id": [4, 5], "v": ["new", None]}), mode="append", db_schema_name="sales") == 2
    assert orders.version.number == 2
    found = sorted((row["id"], row["v"]) for row in orders.to_arrow().to_pylist())
    assert found == [(1, "a"), (2, "b"), (3, "a"), (4, "new"), (5, None)]
    rows_of_new = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for _ in range(2):
        cursor.adbc_ingest("neu", rows_of_new, mode="create_append", db_schema_name="sales")
    assert lake.table("sales.neu").primary_key == () and lake.table("sales.neu").count() == 4


@pytest.mark.parametrize(
    ("name", "mode", "more", "why"),
    [
        ("sales.none", "append", {}, "there is no table 'sales.none'"),
        ("sales.orders", "create", {}, "table 'sales.orders' exists"),
        ("sales.orders", "replace", {}, "found the mode replace; append to it; to replace its rows, TRUNCATE it before"),
        ("orders", "append", {}, "orders"),
        ("orders", "append", {"db_schema_name": "none"}, "there is no database 'none'"),
        ("orders", "append", {"db_schema_name": "sales", "catalog_name": "other"}, "there is no such catalog"),
        ("../orders", "create", {"db_schema_name": "sales"}, "orders"),
        ("t", "create", {"temporary": True}, "there are no temporary tables"),
    ],
)
def test_rows_in_bulk_that_no_table_can_take_are_refused(writable, name: str, mode: str, more: dict, why: str):
    lake, cursor = writable
    with pytest.raises(Error) as raised:
        cursor.adbc_ingest(name, pa.table({"id": [1], "v": ["a"]}), mode=mode, **more)
    assert why in str(raised.value)
    assert lake.tables() == ["sales.orders"] and lake.table("sales.orders").version.number == 0


def test_rows_in_bulk_that_do_not_fit_change_nothing(writable):
    lake, cursor = writable
    for wrong in (pa.table({"id": ["x"], "v": ["a"]}), pa.table({"id": [1]}), pa.table({"id": [None], "v": ["a"]})):
        with pytest.raises(Error):
            cursor.adbc_ingest("sales.orders", wrong, mode="append")
        with pytest.raises(Error):
            cursor.adbc_ingest("sales.neu", pa.table({"a b\n": [1], "A B\n": [2]}), mode="create")
    assert lake.tables() == ["sales.orders"] and lake.table("sales.orders").version.number == 0


def test_a_read_only_server_takes_no_rows_in_bulk(lake, server):
    with connected(server) as cursor, pytest.raises(ProgrammingError, match="this server is read-only"):
        cursor.adbc_ingest("sales.neu", pa.table({"a": [1]}), mode="create")
    assert "sales.neu" not in lake.tables()


def test_a_statement_that_is_too_long_is_refused(cursor):
    with pytest.raises(Error, match="the statement is too long, expected at most 1,048,576 characters"):
        rows(cursor, "SELECT '" + "x" * (1 << 20) + "'")
