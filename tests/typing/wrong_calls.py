"""Wrong calls. Each type checker must report the lines that a comment marks, with these error codes, and no other line.
`test_typing` compares; nothing executes this file."""

from __future__ import annotations

import datetime

import lsmlake


def wrong(lake: lsmlake.Lake, orders: lsmlake.Table) -> None:
    lsmlake.conect("warehouse")  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    lsmlake.connect(7)  # mypy: arg-type; pyright: reportArgumentType
    lsmlake.connect("warehouse", None)  # mypy: call-arg; pyright: reportCallIssue
    lsmlake.connect("warehouse", spark="local")  # mypy: arg-type; pyright: reportArgumentType
    lsmlake.set_option(7, "x")  # mypy: arg-type; pyright: reportArgumentType
    lsmlake.set_option("bucket", object())  # mypy: arg-type; pyright: reportArgumentType
    lake.create_table("d.t")  # mypy: call-arg; pyright: reportCallIssue
    lake.create_table("d.t", 7)  # mypy: arg-type; pyright: reportArgumentType
    lake.create_table("d.t", "id BIGINT", ["id"])  # mypy: call-arg; pyright: reportCallIssue
    lake.create_table("d.t", "id BIGINT", primary_key=[7])  # mypy: list-item; pyright: reportArgumentType
    lake.create_table("d.t", "id BIGINT", primary_keys=["id"])  # mypy: call-arg; pyright: reportCallIssue
    lake.create_table("d.t", "id BIGINT", options={"bucket": object()})  # mypy: dict-item; pyright: reportArgumentType
    lake.create_table_from("d.t")  # mypy: call-arg; pyright: reportCallIssue
    lake.tables(database=1)  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert()  # mypy: call-arg; pyright: reportCallIssue
    orders.upsert(7)  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert(None)  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([1, 2])  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([{1: "a"}])  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert(b"bytes")  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert(datetime.date(2026, 1, 1))  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([], cast="yes")  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([], True)  # mypy: call-arg; pyright: reportCallIssue
    orders.upsert([], commit_id="7")  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([], row_kind={"map": {"c": "+I"}})  # mypy: arg-type; pyright: reportArgumentType
    orders.upsert([], row_kind={"column": "op", "map": {"c": "insert"}})  # mypy: arg-type; pyright: reportArgumentType
    print(orders.upsert([]).id)  # mypy: union-attr; pyright: reportOptionalMemberAccess
    orders.delete_keys([], row_kind="op")  # mypy: call-arg; pyright: reportCallIssue
    orders.scan("amount > 10")  # mypy: call-arg; pyright: reportCallIssue
    orders.scan(where=7)  # mypy: arg-type; pyright: reportArgumentType
    orders.scan(mode="cooked")  # mypy: arg-type; pyright: reportArgumentType
    orders.scan(columns=[1])  # mypy: list-item; pyright: reportArgumentType
    orders.scan(snapshot="12")  # mypy: arg-type; pyright: reportArgumentType
    orders.scan(timestamp=12)  # mypy: arg-type; pyright: reportArgumentType
    orders.scan(limit=1.5)  # mypy: arg-type; pyright: reportArgumentType
    orders.scan().to_numpy()  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    orders.scan().to_spark("fast")  # mypy: arg-type; pyright: reportArgumentType
    orders.get(7)  # mypy: call-overload; pyright: reportCallIssue reportArgumentType
    orders.get({"order_id": 7})["amount"]  # mypy: index; pyright: reportOptionalSubscript
    orders.df(mode="changelog")  # mypy: arg-type; pyright: reportArgumentType
    orders.changes()  # mypy: call-arg; pyright: reportCallIssue
    orders.changes(0.5)  # mypy: arg-type; pyright: reportArgumentType
    orders.changes(1, mode="fresh")  # mypy: arg-type; pyright: reportArgumentType
    orders.follow(wait="1 s")  # mypy: arg-type; pyright: reportArgumentType
    orders.follow(start="earliest")  # mypy: arg-type; pyright: reportArgumentType
    orders.follow(max_rows=10)  # mypy: call-arg; pyright: reportCallIssue
    orders.read_stream(start="now")  # mypy: arg-type; pyright: reportArgumentType
    orders.write_stream(orders.df(), checkpoint="c", trigger={"every": "1 s"})  # mypy: arg-type; pyright: reportArgumentType
    orders.write_stream(orders.df())  # mypy: call-arg; pyright: reportCallIssue
    orders.compact(True)  # mypy: call-arg; pyright: reportCallIssue
    orders.compact(buckets=0)  # mypy: arg-type; pyright: reportArgumentType
    print(orders.compact().marks)  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    orders.alter("bucket")  # mypy: arg-type; pyright: reportArgumentType
    orders.alter({"bucket": 4})  # mypy: arg-type; pyright: reportArgumentType
    orders.repair(action="fix")  # mypy: arg-type; pyright: reportArgumentType
    orders.expire_snapshots(5)  # mypy: call-arg; pyright: reportCallIssue
    orders.files(snapshot="3")  # mypy: arg-type; pyright: reportArgumentType
    orders.primary_key = ("id",)  # mypy: misc; pyright: reportAttributeAccessIssue
