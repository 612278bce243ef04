"""The page in a real browser: every view of an empty, a small and a large warehouse; the keyboard; what is asked of the server;
and texts of tables that try to become programs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from browser import Visit, browser, served
from effort import SCALE
from page_warehouse import HOSTILE, small

import lsmlake
from lsmlake import Lake
from lsmlake.serve.page import routes
from lsmlake.serve.page.saved_page import saved_page

VIEWS = ("history", "tree", "files", "compactions", "definition")
SIZES = [(1280, "light"), (390, "dark")]
ORDERS = "#/table/sales.orders"
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.id * b.id % 7 = 3"


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def base(chromium, lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def tab(chromium, base: str) -> Iterator[Visit]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield Visit(context.new_page(), base)
    context.close()


def toured(kind: str, chromium, base: str, places: list[str], width: int, theme: str) -> None:
    """Opens places of the page; each has its data, no message of an error, and nothing that goes wrong."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    visit = Visit(context.new_page(), base)
    for place in places:
        page = visit.open(place)
        assert page.locator("h1").count() == 1
        assert page.locator("[role=alert]").all_inner_texts() == [], place
        visit.check()
        visit.keep_picture(f"{kind}{place.strip('#').replace('/', '-')}-{width}-{theme}")
    context.close()


def of_tables(names: list[str]) -> list[str]:
    return ["#/", "#/sql", "#/maintenance", *(f"#/table/{name}/{view}" for name in names for view in VIEWS)]


# -- every view -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_every_view_of_a_small_warehouse(chromium, base: str, width: int, theme: str):
    names = ["sales.orders", "sales.events", "sales.no_rows_yet", "sales.hostile", "sales.orders%24branch_trial"]
    toured("small", chromium, base, of_tables(names), width, theme)


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_an_empty_warehouse_says_how_to_begin(chromium, tmp_path: Path, width: int, theme: str):
    with served(lsmlake.connect(tmp_path)) as address:
        toured("empty", chromium, address, of_tables([]), width, theme)
        visit = Visit(chromium.new_page(), address)
        assert "There is no table yet" in visit.open("#/").inner_text("main")
        visit.page.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At full scale 10,000 files in as many partitions, and a thousand snapshots."""
    lake = lsmlake.connect(tmp_path_factory.mktemp("large"))
    lake.create_database("d")
    files = lake.create_table("d.files", "p INT, v INT", partition_by=["p"])
    count = 10_000 if SCALE >= 1 else 1_000
    files.append(pa.table({"p": pa.array(range(count), pa.int32()), "v": pa.array([1] * count, pa.int32())}))
    kept = {"bucket": 1, "snapshot.num-retained.min": 10_000, "snapshot.num-retained.max": 10_000}
    commits = lake.create_table("d.commits", "k INT NOT NULL", primary_key=["k"], options=kept)
    for n in range(1_000 if SCALE >= 1 else 60):
        commits.upsert([{"k": n % 50}])
    return lake


def test_a_large_table_is_summed_by_the_server(chromium, large: Lake):
    """Wall clocks of a busy machine say little: the processor's time of this process, which serves, and the size of the page."""
    with served(large) as address:
        visit = Visit(chromium.new_page(), address)
        visit.open("#/sql")
        for place in ("#/table/d.files/files", "#/table/d.files/tree", "#/table/d.commits", "#/table/d.commits/tree", "#/"):
            began = time.process_time()
            page = visit.open(place)
            assert time.process_time() - began < 1.0, place
            assert page.evaluate("document.querySelectorAll('*').length") < 8_000, place
        toured(
            "large",
            chromium,
            address,
            ["#/table/d.files/files", "#/table/d.commits/history", "#/table/d.commits/tree"],
            390,
            "light",
        )
        visit.page.close()


# -- history ----------------------------------------------------------------------------------------------------------


def test_a_commit_shows_its_changes_and_escape_closes_them(tab: Visit, lake: Lake):
    page = tab.open(ORDERS)
    numbers = lake.table("sales.orders").snapshots()["snapshot_id"].to_pylist()
    assert page.locator("tbody tr").count() == len(numbers)
    page.click("button.link >> text='2'")
    page.wait_for_selector("dialog table")
    changes = lake.table("sales.orders").changes(1, 2).to_arrow()
    assert page.locator("dialog tbody tr").count() == min(100, changes.num_rows)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.textContent") == "2", "the focus is where it was"
    page.focus("svg.timeline")
    page.keyboard.press("ArrowRight")
    assert "Snapshot 1, APPEND" in page.inner_text(".tip")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog table")
    assert page.inner_text("dialog h2") == "Snapshot 1"
    tab.check()


def test_a_slider_over_all_commits_chooses_those_of_the_timeline(tab: Visit, lake: Lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(routes, "PAGE", 4)
    page = tab.open(ORDERS)
    numbers = lake.table("sales.orders").snapshots()["snapshot_id"].to_pylist()

    def shown() -> list[int]:
        return [int(text) for text in page.locator("tbody th").all_inner_texts()]

    assert shown() == numbers[::-1][:4]
    page.wait_for_selector(".outline .line")
    assert f"all {len(numbers)} commits" in page.inner_text(".outline figcaption")
    page.focus(".outline input")
    page.keyboard.press("Home")
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    assert shown() == numbers[:1] and page.locator("text='Older commits'").count() == 0
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    tab.until(f"document.querySelector('tbody th').textContent === '{numbers[6]}'")
    assert shown() == numbers[3:7][::-1]
    assert page.evaluate("document.activeElement.type") == "range", "the focus stays on the slider"
    page.click("text='Older commits'")
    tab.until("document.querySelectorAll('tbody tr').length === 7")
    assert shown() == numbers[:7][::-1]
    page.focus(".outline input")
    page.keyboard.press("End")
    tab.until(f"document.querySelector('tbody th').textContent === '{numbers[-1]}'")
    assert shown() == numbers[::-1][:4]
    tab.check()


def test_the_back_button_returns(tab: Visit):
    page = tab.open("#/")
    page.click("text='sales.orders' >> nth=0")
    tab.ready()
    page.click("nav.tabs >> text='LSM tree'")
    page.wait_for_selector("svg.tree")
    page.go_back()
    page.wait_for_selector("svg.timeline")
    page.go_back()
    page.wait_for_selector("h1 >> text='Tables'")
    tab.check()


# -- trees ------------------------------------------------------------------------------------------------------------


def test_the_slider_goes_through_the_snapshots_by_arrows(tab: Visit, lake: Lake):
    table = lake.table("sales.orders")
    numbers = table.snapshots()["snapshot_id"].to_pylist()
    page = tab.open(f"{ORDERS}/tree?partition=dt%3D2026-01-01")
    for back, number in enumerate(reversed(numbers)):
        page.wait_for_selector(f".about b >> text='Snapshot {number}'")
        bars = page.locator("svg.tree g.bar:not(.leaves)")
        files = [one for one in table.files(snapshot=number).to_pylist() if one["partition"] == "dt=2026-01-01"]
        assert bars.count() == len(files), number
        assert ("snapshot=" in page.url) == (back > 0)
        page.focus("input[type=range]")
        page.keyboard.press("ArrowLeft")
    page.click("text='Newest'")
    page.wait_for_selector(f".about b >> text='Snapshot {numbers[-1]}'")
    page.check("input[value=keys]")
    page.focus("svg.tree >> nth=0")
    page.keyboard.press("ArrowRight")
    assert re.search(r"level \d", page.inner_text(".detail"))
    page.click("summary")
    page.wait_for_selector("details tbody tr")
    rows = page.locator("details tbody tr").count()
    lines = """[...document.querySelectorAll("svg.tree")].reduce((sum, tree) => {
        const bars = [...tree.querySelectorAll("g.bar:not(.leaves) rect:first-child")];
        return sum + new Set(bars.map((bar) => bar.getAttribute("y"))).size;
    }, 0)"""
    assert rows == page.evaluate(lines), "one row per sorted run"
    tab.check()


def test_a_deep_link_opens_a_snapshot_and_play_goes_on(tab: Visit):
    page = tab.open(f"{ORDERS}/tree?snapshot=3&partition=dt%3D2026-01-01")
    page.wait_for_selector(".about b >> text='Snapshot 3'")
    page.click("[aria-label='Play from here']")
    page.wait_for_selector(".about b >> text='Snapshot 5'")
    page.click("[aria-label=Pause]")
    tab.check()
    page = tab.open(f"{ORDERS}/tree?snapshot=999")
    page.wait_for_selector("[role=alert] >> text='There is no snapshot 999'")
    assert "What to do:" in page.inner_text("[role=alert]")


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_field_of_the_map_opens_its_partition(tab: Visit, lake: Lake):
    page = tab.open(f"{ORDERS}/files")
    page.focus("svg.map")
    page.keyboard.press("ArrowRight")
    name = page.inner_text(".tip b")
    page.keyboard.press("Enter")
    page.wait_for_selector("text='All partitions'")
    files = [one for one in lake.table("sales.orders").files().to_pylist() if one["partition"] == name]
    assert page.locator("svg.map g.field").count() == page.locator("tbody tr").count() == len(files)
    page.click("text='All partitions'")
    page.wait_for_selector("[aria-label='Filter partitions']")
    page.fill("[aria-label='Filter partitions']", "01-02")
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    tab.check()


# -- SQL --------------------------------------------------------------------------------------------------------------


def test_statements_their_funnels_errors_and_history(tab: Visit, lake: Lake):
    page = tab.open("#/sql")
    assert "Queries only" in page.inner_text("#sql-help")
    query = "SELECT order_id FROM sales.orders WHERE dt = DATE '2026-01-01' AND order_id < 10 ORDER BY order_id"
    page.fill("textarea", query)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".funnel")
    assert page.locator(".rows tbody tr").all_inner_texts() == [str(n) for n in range(10)]
    steps = [row.split("\n")[0] for row in page.locator(".funnel tbody th").all_inner_texts()]
    assert steps == ["snapshot", "partitions", "keys", "statistics", "read", "rows"]
    page.fill("textarea", "SELECT order_id\nFROM sales.orders\nWHERE ordre_id = 1")
    page.click("text='Run'")
    page.wait_for_selector("[role=alert]")
    assert "did you mean order_id?" in page.inner_text("[role=alert]")
    assert page.evaluate("getSelection().toString()") == "ordre_id", "the place of the error is selected"
    page.fill("textarea", "DELETE FROM sales.orders")
    page.click("text='Run'")
    page.wait_for_selector("[role=alert] >> text=started without --write")
    page.click("text='Statements of this session'")
    assert page.locator("dialog .statement").all_inner_texts()[2] == query
    page.click("dialog .statement >> nth=2")
    assert page.input_value("textarea") == query
    tab.until("!document.querySelector('dialog')")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA", "one can go on typing"
    page.fill("textarea", ENDLESS)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("button:enabled >> text='Cancel'")
    page.focus("textarea")
    page.keyboard.press("Escape")
    page.wait_for_selector("[role=alert] >> text='The statement was cancelled'")
    tab.check()


def test_a_statement_is_cancelled_although_the_server_hears_of_that_first(tab: Visit):
    """A reader presses Escape at once: the request to cancel can overtake the one that starts the statement."""
    page = tab.open("#/sql")
    held: list[Any] = []
    page.route("**/api/sql", lambda route: held.append(route))
    page.fill("textarea", ENDLESS)
    page.keyboard.press("Control+Enter")
    with page.expect_response("**/api/cancel") as early:
        page.keyboard.press("Escape")
    assert early.value.json() == {"cancelled": False}
    [started] = held
    started.continue_()
    page.wait_for_selector("[role=alert] >> text='The statement was cancelled'")
    tab.check()


# -- asking again -----------------------------------------------------------------------------------------------------


EVERY_MS = 5_000
"""A bit longer than the page waits before it asks again."""


def test_a_commit_appears_by_itself_and_what_a_reader_did_stays(chromium, tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"])
    table.upsert([{"k": 1}])
    with served(lake) as address:
        visit = Visit(chromium.new_page(), address)
        visit.page.clock.install()
        page = visit.open("#/table/d.t")
        statuses: list[int] = []
        page.on("response", lambda answer: statuses.append(answer.status))
        page.focus("button.link >> text='1'")
        page.clock.fast_forward(EVERY_MS)
        page.wait_for_timeout(300)
        assert statuses and set(statuses) == {304}, "nothing has changed, and nothing was sent"
        table.upsert([{"k": 2}])
        page.clock.fast_forward(EVERY_MS)
        page.wait_for_selector("button.link >> text='2'")
        assert page.evaluate("document.activeElement.textContent") == "1", "the focus stays"
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(300)
        asked = len(visit.requests)
        page.clock.fast_forward(10 * EVERY_MS)
        page.wait_for_timeout(300)
        assert len(visit.requests) == asked, "a hidden tab asks for nothing"
        page.evaluate("Object.defineProperty(document, 'hidden', { value: false, configurable: true })")
        with page.expect_response("**/api/**"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        visit.check()
        page.close()


def test_what_is_drawn_again_keeps_the_focus_and_what_was_typed(chromium, tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "p INT NOT NULL, k INT NOT NULL", primary_key=["p", "k"], partition_by=["p"])
    table.upsert([{"p": 1, "k": 1}, {"p": 2, "k": 1}])
    with served(lake) as address:
        visit = Visit(chromium.new_page(), address)
        page = visit.open("#/table/d.t")

        def commit() -> None:
            """Commits, and lets the page ask now."""
            table.upsert([{"p": 1, "k": 2}])
            number = table.version.number
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            visit.until(
                f"document.body.textContent.includes('napshot {number}') || !!document.querySelector('[data-row=\"{number}\"]')"
            )

        page.focus("svg.timeline")
        commit()
        assert page.evaluate("document.activeElement.classList.contains('timeline')")
        page.click("button.link >> text='1'")
        page.wait_for_selector("dialog table")
        commit()
        page.keyboard.press("Escape")
        visit.until("document.activeElement.dataset.key === 'snapshot 1'")
        page = visit.open("#/table/d.t/tree")
        page.check("input[value=keys]", force=True)
        page.focus("input[value=keys]")
        commit()
        assert page.evaluate("document.activeElement.value") == "keys"
        page.focus("input[type=search]")
        page.keyboard.type("p=")
        commit()
        page.keyboard.type("2")
        assert page.evaluate("document.activeElement.value") == "p=2"
        page = visit.open("#/table/d.t/files")
        page.focus("input[type=search]")
        for letter in "p=2":
            page.keyboard.type(letter)
            page.wait_for_timeout(250)  # the page asks after each
        visit.until("document.querySelectorAll('tbody tr').length === 1")
        assert page.evaluate("document.activeElement.value") == "p=2"
        visit.check()


def test_a_server_that_has_ended_is_named_and_found_again(chromium, base: str):
    visit = Visit(chromium.new_page(), base)
    visit.page.clock.install()
    page = visit.open("#/")
    page.route("**/api/**", lambda route: route.abort())
    page.clock.fast_forward(EVERY_MS)
    page.wait_for_selector("[role=alert] >> text='The server does not answer'")
    assert page.locator("tbody tr").count() > 0, "what was read stays"
    page.unroute("**/api/**")
    page.clock.fast_forward(EVERY_MS)
    page.wait_for_selector("[role=alert]", state="detached")
    page.close()


# -- the token --------------------------------------------------------------------------------------------------------


def test_a_token_is_asked_for_once_and_again_when_it_is_wrong(chromium, lake: Lake):
    with served(lake, tokens=("right-token",)) as address:
        context = chromium.new_context()
        visit = Visit(context.new_page(), address)
        page = visit.page
        page.goto(f"{address}/#/")
        page.wait_for_selector("dialog.token")
        assert page.evaluate("document.activeElement.id") == "token"
        page.keyboard.type("wrong-token")
        page.keyboard.press("Enter")
        page.wait_for_selector("text='The server refused the token of this tab: it is wrong or has expired.'")
        page.keyboard.type("right-token")
        page.keyboard.press("Enter")
        page.wait_for_selector("tbody tr")
        page.reload()
        page.wait_for_selector("tbody tr")
        assert page.locator("dialog").count() == 0
        assert page.evaluate("sessionStorage.getItem('lsmlake.token')") == "right-token"
        assert page.evaluate("Object.keys(localStorage)") == ["lsmlake.theme"] and context.cookies() == []
        assert [url for url in visit.requests if "right-token" in url] == []
        other = context.new_page()
        other.goto(f"{address}/#/")
        other.wait_for_selector("dialog.token")
        context.close()


# -- texts of tables --------------------------------------------------------------------------------------------------


def test_no_text_of_a_table_becomes_a_program(tab: Visit, lake: Lake):
    shown = {"history": ".tabled", "tree": ".controls", "files": ".tabled", "definition": ".tabled"}
    for view, where in shown.items():
        page = tab.open(f"#/table/sales.hostile/{view}")
        texts = " ".join(
            [*page.locator(where).all_inner_texts(), *(one.input_value() for one in page.locator("input[list]").all())]
        )
        assert "onerror=" in texts, view
        assert page.locator("main img, main script").count() == 0
        tab.check()
    page = tab.open("#/table/sales.hostile")
    for number in ("1", "2"):
        page.click(f"button.link >> text='{number}'")
        page.wait_for_selector("dialog table")
        assert "onerror=" in page.inner_text("dialog table")
        page.keyboard.press("Escape")
    page = tab.open("#/sql")
    for text in (
        "SELECT * FROM sales.hostile",
        f"SELECT '{HOSTILE.replace(chr(39), '')}' AS `<b>x</b>`",
        f"SELECT `{HOSTILE.replace('`', '')}`",
    ):
        page.fill("textarea", text)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".times, [role=alert]")
        assert "window.hacked" in page.inner_text("main [aria-live]")
        tab.check()
    for place in (
        f"#/table/{HOSTILE}",
        "#/table/%E0%A4%A/tree",
        "#/table/sales.orders/%3Cimg%20src=x%20onerror=hacked()%3E",
        "#/table/sales.orders/tree?partition=%3Cimg%20src=x%3E",
    ):
        page = tab.open(place)
        assert page.locator("main img, main script").count() == 0
        tab.check()


# -- one file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sales.orders", "sales.hostile", "sales.events", "sales.no_rows_yet"])
def test_a_saved_page_works_without_a_server(chromium, lake: Lake, tmp_path: Path, name: str):
    file = tmp_path / "table.html"
    file.write_text(saved_page(lake.table(name)))
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    visit = Visit(page)
    page.goto(file.as_uri())
    visit.ready()
    for place, view in enumerate(VIEWS):
        page.click(f"nav.tabs a >> nth={place}")
        page.wait_for_selector(f"nav.tabs a[aria-current] >> nth=0 >> text={page.inner_text(f'nav.tabs a >> nth={place}')}")
        visit.ready()
        assert page.locator("[role=alert]").all_inner_texts() == [], view
        visit.check()
        if (view, name) == ("tree", "sales.orders"):
            page.focus("input[type=range]")
            page.keyboard.press("ArrowLeft")
            page.wait_for_selector(f".about b >> text='Snapshot {lake.table(name).version.number - 1}'")
            assert page.locator("svg.tree g.bar:not(.leaves)").count() > 0
    assert visit.requests == [file.as_uri()], "it asks for nothing"
    page.close()


# -- colours and motion -----------------------------------------------------------------------------------------------


def test_colours_follow_the_system_or_the_choice(tab: Visit):
    page = tab.open("#/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    button = page.locator("header button")
    button.click()
    assert page.evaluate(ground) == light, "light, although the system is dark"
    button.click()
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == dark, "dark, although the system is light"
    page.reload()
    tab.ready()
    assert page.evaluate(ground) == dark, "the choice is kept"
    page.emulate_media(reduced_motion="reduce")
    page = tab.open(f"{ORDERS}/tree")
    page.wait_for_selector("svg.tree g.bar rect")
    assert page.evaluate("getComputedStyle(document.querySelector('svg.tree g.bar rect')).transitionDuration") == "0s"
    tab.check()


REACHABLE = """[...document.querySelectorAll("button:enabled, input, textarea, a[href], [tabindex='0'], summary")]
    .filter((one) => one.checkVisibility() && !(one.type === "radio" && !one.checked))
    .map((one, number) => (one.dataset.seen = number, number))"""
FOCUSED = """(() => {
    const one = document.activeElement, drawn = one.type === "radio" ? one.nextElementSibling : one;
    return [one.dataset.seen, getComputedStyle(drawn).outlineStyle, one.outerHTML.slice(0, 200)];
})()"""


def test_everything_is_reached_by_the_tabulator_with_a_visible_focus(tab: Visit):
    for place in ("#/", ORDERS, f"{ORDERS}/tree", f"{ORDERS}/files", "#/sql"):
        page = tab.open(place)
        wanted, seen = page.evaluate(REACHABLE), set()
        for _ in range(len(wanted) + 2):
            page.keyboard.press("Tab")
            number, outline, html = page.evaluate(FOCUSED)
            if number is not None:
                seen.add(int(number))
                assert outline != "none", (place, html)
        assert seen == set(wanted), place
