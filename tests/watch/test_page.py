"""Pages of recordings in headless Chromium: what they show, the cursor, the keys, links, sizes and speed.

The recordings are synthetic. replay.py says what has to be shown.
"""

from __future__ import annotations

import re
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

from tests.docs import browse_pages, chromium
from tools.watch.page import VIEWS, write_page

from . import replay, synthetic

SKIPPED = 77
READY = """new Promise((done, fail) => {
  const wait = tries => document.documentElement.dataset.ready ? requestAnimationFrame(() => done(true))
    : tries ? setTimeout(wait, 5, tries - 1) : fail(new Error(document.getElementById("loading").textContent));
  wait(2000);
})"""  # noqa: E501
PAGE_BYTES = 8_000_000
LOAD_MS = 2000
MOVE_MS = 50
PRESS = """((key, shiftKey) => {
  (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", {key, shiftKey, bubbles: true, cancelable: true}));
})"""  # noqa: E501
CONTENT = "document.getElementById({!r}).textContent"


def setUpModule():
    """One browser, and the page of every recording."""
    folder = tempfile.TemporaryDirectory(prefix="test-watch-")
    unittest.addModuleCleanup(folder.cleanup)
    WatchPageTest.folder = Path(folder.name)
    WatchPageTest.browser = unittest.enterModuleContext(chromium.Browser())
    WatchPageTest.browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
    for name, make in synthetic.ALL_OF_THEM.items():
        WatchPageTest.add(name, make(WatchPageTest.folder))


class WatchPageTest(unittest.TestCase):
    pages: ClassVar[dict[str, Path]] = {}
    replays: ClassVar[dict[str, Path]] = {}

    @classmethod
    def add(cls, name: str, made: synthetic.Synthetic) -> None:
        recording = made.write(cls.folder / f"{name}.rec")
        cls.pages[name] = cls.folder / f"{name}.html"
        write_page(recording, cls.pages[name], title=name, sources=cls.folder)
        cls.replays[name] = recording

    def open(self, name: str, address: str = "", width: int = 1280) -> None:
        self.browser.resize(width)
        self.browser.media("light")
        self.browser.open("about:blank")  # an address that differs in # alone loads nothing
        self.browser.open(self.pages[name].as_uri() + address)
        self.browser.run(READY)

    def show(self, name: str, made: synthetic.Synthetic, address: str = "") -> None:
        """Opens a recording that only one test needs."""
        self.add(name, made)
        self.addCleanup(self.pages.pop, name)
        self.addCleanup(self.replays.pop, name)
        self.open(name, address)

    def press(self, key: str, shift: bool = False) -> None:
        self.browser.run(f"{PRESS}({key!r}, {str(shift).lower()})")

    def text(self, identity: str) -> str:
        found = self.browser.run(CONTENT.format(identity))
        return re.sub(r"\s+", " ", found).strip()

    def step(self) -> int:
        return int(self.text("step-text").split(" of ")[0].replace(",", ""))

    def click(self, selector: str) -> None:
        self.browser.run(f"document.querySelector({selector!r}).click()")

    def click_at(self, selector: str, x: float, y: float) -> None:
        """@param x, y  in the element, from 0 to 1 or in pixels if larger"""
        box = self.browser.run(
            f"(box => [box.left, box.top, box.width, box.height])("
            f"(e => (e.scrollIntoView({{block: 'center'}}), "
            f"e.getBoundingClientRect()))(document.querySelector({selector!r})))"
        )
        at = {"x": box[0] + (x if x > 1 else x * box[2]), "y": box[1] + (y if y > 1 else y * box[3])}
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def until(self, condition: str) -> None:
        """Waits until something is so; the page writes addresses and speaks with a delay."""
        self.browser.run(
            f"""new Promise((done, fail) => {{
            const wait = tries => {condition} ? done(true)
                : tries ? setTimeout(wait, 20, tries - 1) : fail(new Error("not so: " + {condition!r}));
            wait(500);
        }})"""
        )

    def no_messages(self) -> None:
        self.assertEqual(self.browser.complaints(), [])
        said = [
            event
            for event in self.browser.events
            if event["method"] in ("Runtime.consoleAPICalled", "Log.entryAdded")
        ]
        self.assertEqual(said, [])


class LooksTest(WatchPageTest):
    def test_screen_phone_and_paper(self):
        for name in ("transpose", "race", "hopper"):
            found = browse_pages.complaints_about(self.browser, self.pages[name], None)
            self.assertEqual(found, [], name)

    def test_every_width_in_both_schemes(self):
        """Without 1280 in light and 390 in dark colours, which the test above has seen."""
        self.open("race", "#t=8&v=defects")
        for width, schemes in (
            (390, ["light"]),
            (768, ["light", "dark"]),
            (1280, ["dark"]),
            (1920, ["light", "dark"]),
        ):
            self.browser.resize(width)
            for scheme in schemes:
                self.browser.media(scheme)
                self.browser.run("new Promise(requestAnimationFrame)")
                found = self.browser.run(browse_pages.AUDIT)
                self.assertEqual(found, [], (width, scheme))
        self.no_messages()

    def test_banks_use_the_width_there_is(self):
        # What it is drawn for; the style sheet makes a canvas that is too wide narrower.
        widths = (
            "[parseFloat(document.getElementById('banks').style.width),"
            " document.getElementById('banks-holder').clientWidth]"
        )
        self.open("transpose")
        drawn, holder = self.browser.run(widths)
        self.assertEqual(drawn, holder)
        # The neighbours change, the window does not.
        self.browser.run("document.getElementById('shared-map').parentElement.style.minWidth = '250px'")
        self.until(f"(([drawn, now]) => drawn === now && now < {holder})({widths})")

    def test_only_the_page_itself_is_read(self):
        self.open("hopper")
        local = [u for u in self.browser.requests() if not u.startswith("data:")]
        self.assertEqual(local, [self.pages["hopper"].as_uri()])

    def test_explanations(self):
        self.open("transpose")
        self.browser.run("document.querySelector('[data-term=wavefront]').focus()")
        self.assertIn("One pass over the 32 banks", self.text("explanation"))
        terms = self.browser.run(
            "[...document.querySelectorAll('[data-term]')].map(e => {"
            " e.focus(); return [e.dataset.term, document.getElementById('explanation').textContent.length]; "
            "})"
        )
        self.assertTrue(terms)
        for term, length in terms:
            self.assertGreater(length, 40, term)


class NumbersTest(WatchPageTest):
    def test_summary(self):
        for name, path in self.replays.items():
            totals = replay.Replayed(path).totals()
            self.open(name)
            summary = self.text("summary")
            if "wavefronts" in totals:
                self.assertIn(
                    f"wavefronts{totals['wavefronts']:,} / ideal {totals['ideal wavefronts']:,}", summary
                )
            if "sectors" in totals:
                self.assertIn(f"sectors{totals['sectors']:,} / ideal {totals['ideal sectors']:,}", summary)
            if "longest wait" in totals:
                longest = f" waits {totals['longest wait']} step"
                self.assertIn(longest, self.text("findings"))

    def test_lines(self):
        for name in ("transpose", "stages_3"):
            expected = replay.Replayed(self.replays[name]).lines()
            self.open(name)
            for metric, words in (("runs", "executions"), ("extra", "extra wavefronts")):
                shown = self.browser.run(
                    f"""(() => {{ const chooser = document.getElementById("metric");
                    chooser.value = "{metric}"; chooser.dispatchEvent(new Event("change"));
                    return [...document.querySelectorAll(".heat[title]")].map(e => [e.previousSibling.textContent, e.title.split("; ")[0]]); }})()"""  # noqa: E501
                )
                self.assertEqual(
                    {int(line): text for line, text in shown},
                    {
                        line: f"{counts[words]:,} {words}"
                        for line, counts in expected.items()
                        if counts[words]
                    },
                )

    def test_what_shared_memory_holds(self):
        """Lane by lane, at steps in both directions, the page says where the bytes at its address come
        from.
        """
        for name in ("transpose", "stages_3"):
            again = replay.Replayed(self.replays[name])
            reads = [
                event
                for event, _ in again._accesses("shared")
                if event["flags"] in (0, 4) and event["warp"] == 1
            ]
            self.open(name)
            checked = 0
            for event in (*reads[:: len(reads) // 5], *reversed(reads[::7][:4])):
                holds = again.shared_at(event["time"])
                begin = again.header["arrays"][event["array"]].get("begin", 0)
                self.browser.run(f"location.hash = '#t={event['time']}&w=1'")
                for lane, at in again.lanes(event)[::9]:
                    self.click(f"#lanes button:nth-child({lane + 1})")
                    tensor, offset = holds[begin + at]
                    array = again.header["arrays"][tensor]
                    size = {"f32": 4, "f16": 2}[array["type"]]
                    row, column = divmod(offset // size, array["shape"][-1])
                    self.assertIn(
                        f"holds {array['name']}[{row}, {column}], written by warp", self.text("shared-place")
                    )
                    self.click(f"#lanes button:nth-child({lane + 1})")
                    checked += 1
            self.assertGreater(checked, 20)

    def test_tensors(self):
        again = replay.Replayed(self.replays["transpose"])
        last = max(event["time"] for event in again.events)
        self.open("transpose")
        for at in (0, 5, last, 30, 18):
            self.browser.run(f"location.hash = '#t={at}&w=0'")
            for name in ("x", "y"):
                read, written = again.touched_at(at, name)
                words = [
                    f"{percent(count)} {verb}"
                    for count, verb in ((read, "read"), (written, "written"))
                    if count
                ]
                self.assertIn(f"{name}: {', '.join(words) or 'not touched yet'}", self.text("tensors-text"))


def percent(count: int) -> str:
    """Of the 4096 bytes of a tensor of transpose."""
    return f"{int(100 * count / 4096 + 0.5)} %"


class FindingsTest(WatchPageTest):
    def findings(self, name: str) -> str:
        self.open(name)
        return self.text("findings")

    def test_bank_conflicts_and_sectors(self):
        found = self.findings("transpose")
        self.assertIn("Bank conflicts: 94 %", found)
        self.assertIn("transpose.cu:10, 32 instead of 1", found)
        self.assertIn("Wasted sectors: 78 % of the fetched bytes are not used", found)
        self.assertIn("transpose.cu:13, 32 sectors (1,024 bytes) for 128 bytes", found)
        # The page opens there: one bank, 32 passes.
        self.assertIn("32 lanes, 1 bank: 32 wavefronts", self.text("shared-text"))
        self.click("#findings li:nth-child(2) a")
        self.assertIn("128 of 1,024 bytes used", self.text("instruction-picture"))

    def test_missing_overlap(self):
        self.assertIn("No overlap: 100 %", self.findings("stages_1"))
        self.assertIn("nothing hides the copy", self.text("instruction-title"))
        found = self.findings("stages_3")
        self.assertNotIn("No overlap", found)
        self.assertIn("Copies overlap with work: 32 instructions", found)

    def test_race(self):
        self.assertIn("Race", self.findings("race"))
        card = self.text("defects-holder")
        self.assertIn("First: warp 1 writes sPartial", card)
        self.assertIn("Then: warp 0 reads sPartial", card)
        self.assertIn("race.cu:5", card)
        self.assertIn("race.cu:6", card)
        self.assertIn("Warp 1, lane 0: sPartial[1]", card)
        self.assertIn("no __syncthreads() between the two", card)
        self.assertIn("no __syncthreads() between line 5 and line 6", self.text("source-holder"))

    def test_a_defect_of_registers_has_its_step(self):
        self.show("early", synthetic.early(self.folder))
        self.assertEqual(self.step(), 7)  # where the page opens
        self.assertIn("Wrong use of wgmma", self.text("findings"))
        card = self.text("defects-holder")
        self.assertIn("Here: warp 1 reads accumulator d[5]", card)
        self.assertIn("early.cu:4", card)
        self.assertIn("Go to step 7", card)
        self.assertNotIn("not recorded", card)
        self.no_messages()

    def test_reports_of_one_warp(self):
        """If several warps use the bytes, the page shows two of them and says what it takes."""
        self.show("slices", synthetic.slices(self.folder))
        between = "no __syncthreads() between line 14 and line 15"
        self.assertIn(f"Race, at 4 places Warps 0 and 1 use sSlice: {between}", self.text("findings"))
        card = self.text("defects-holder")
        self.assertIn("First: warp 1 reads sSlice", card)
        self.assertIn("Then: warp 0 writes sSlice", card)
        self.assertIn("it takes __syncthreads()", card)
        self.assertIn("Nothing synchronises them before slices.cu:15.", card)
        self.assertIn("Lane 0 touches sSlice + 0 bytes, as the other does: bytes 0 to 3", card)
        self.assertIn(between, self.text("source-holder"))
        self.no_messages()

    def test_reports_about_the_same_lines_share_a_card(self):
        self.show("slices", synthetic.slices(self.folder), "#t=0&w=0")
        holder = "document.getElementById('defects-holder')"
        self.assertEqual(self.browser.run(f"{holder}.children.length"), 1)
        self.assertIn("3 more at other addresses", self.text("defects-holder"))
        folded = f"{holder}.querySelector('.others').open"
        self.assertFalse(self.browser.run(folded))
        self.assertEqual(self.browser.run("document.querySelectorAll('tr.barrier').length"), 1)
        # A link to one of the others shows it.
        self.browser.run("location.hash = '#d=2&v=defects'")
        self.until(folded)
        self.assertTrue(self.browser.run("document.getElementById('defect-2').classList.contains('chosen')"))

    def test_a_race_within_a_warp_stays_one(self):
        """One warp alone, and two that something else may order: the page says what the simulator says."""
        for name, more in (("alone", {"warps": 1}), ("atomic", {"atomic": True})):
            self.show(name, synthetic.slices(self.folder, **more))
            card = self.text("defects-holder")
            self.assertIn("First: warp 0 reads sSlice", card, name)
            self.assertIn("no __syncwarp() or __syncthreads()", card, name)
            self.assertNotIn("it takes", card, name)

    def test_the_line_that_acts(self):
        self.show("slices", synthetic.slices(self.folder), "#t=3&w=0")
        current = "document.querySelector('tr.current .line').textContent"
        self.assertEqual(self.browser.run(current), "8")
        calling = "document.querySelector('tr.calling .line').textContent"
        self.assertEqual(self.browser.run(calling), "15")
        own = "document.querySelector('tr.current .at').textContent"
        self.assertEqual(self.browser.run(own), "w0–1")
        visible = """(line => { const row = [...document.querySelectorAll("tr.ran")].find(e => e.querySelector(".line").textContent === line);
            const box = document.getElementById("source-holder").getBoundingClientRect(), own = row.getBoundingClientRect();
            return own.top >= box.top && own.bottom <= box.bottom; })"""  # noqa: E501
        # As many lines as fit are visible: with a low holder, the line of the instruction, not its caller.
        self.browser.run("document.getElementById('source-holder').style.maxHeight = '110px'")
        self.press("ArrowLeft")
        self.press("ArrowRight")
        self.until(f"{visible}('8')")
        self.click("#call-path a")  # the caller
        self.until(f"{visible}('15')")

    def test_lines_and_their_calls(self):
        self.show("slices", synthetic.slices(self.folder))
        title = "[...document.querySelectorAll('.heat[title]')].map(e => e.previousSibling.textContent + ': ' + e.title)"  # noqa: E501
        titles = self.browser.run(title)
        self.assertIn("3: 8 executions", titles)
        self.assertIn("14: 8 executions; in calls: 8", titles)

    def test_who_is_waited_for(self):
        self.open("hopper", "#t=3&w=4")
        self.assertIn("begins to wait for s.ring.empty[0]", self.text("instruction-title"))
        self.assertIn("the last to arrive was warp 3", self.text("instruction-title"))
        self.assertIn("file not found: line numbers only", self.text("source-holder"))

    def test_products_and_fragments(self):
        self.open("hopper", "#t=7&w=2")
        self.assertIn("starts wgmma m64n64k16", self.text("instruction-title"))
        label = "document.querySelector('#instruction-picture svg').getAttribute('aria-label')"
        self.click("#lanes button:nth-child(6)")  # lane 5: row 1, columns 2 and 3
        self.assertIn("lane 5 holds (1, 2) in d0, (1, 3) in d1", self.browser.run(label))
        product = next(
            event["time"]
            for event in replay.Replayed(self.replays["stages_3"]).events
            if (event["kind"], event["flags"], event["warp"]) == (2, 3, 0)
        )
        self.open("stages_3", f"#t={product}&w=0")
        self.assertIn("mma m16n8k16", self.text("instruction-title"))
        self.click("#lanes button:nth-child(6)")
        self.assertIn("lane 5 holds (1, 2) in a0, (1, 3) in a0", self.browser.run(label))


class CursorTest(WatchPageTest):
    def test_keys(self):
        self.open("race", "#t=0&w=0")
        self.press("ArrowRight")
        self.assertEqual(self.step(), 1)
        self.press("ArrowRight", shift=True)
        self.assertEqual(self.step(), 11)
        self.press("ArrowLeft")
        self.assertEqual(self.step(), 10)
        self.press("End")
        self.assertEqual(self.step(), 12)
        self.press("Home")
        self.assertEqual(self.step(), 0)
        self.press("d")
        self.assertEqual(self.step(), 8)
        self.press("p")
        self.assertEqual(self.step(), 7)
        self.press("n")
        self.assertEqual(self.step(), 8)
        self.press("ArrowDown")
        self.assertIn("Warp 1", self.text("instruction-title"))
        self.press("?")
        self.assertFalse(self.browser.run("document.getElementById('keys').hidden"))
        self.press("?")
        self.press(" ")
        self.assertEqual(self.text("play"), "Pause")
        self.press(" ")
        self.assertEqual(self.text("play"), "Play")
        for number, view in enumerate(VIEWS, 1):
            self.press(str(number))
            self.assertTrue(
                self.browser.run(f"document.getElementById('{view}').classList.contains('focused')")
            )
        self.open("transpose", "#t=0&w=2")
        self.press("c")
        self.assertIn("32 wavefronts where 1 would do", self.text("instruction-title"))
        self.no_messages()

    def test_the_next_defect(self):
        """The next one after the cursor's step, whichever was the last; the page does not scroll away from
        the timeline.
        """
        made = synthetic.slices(self.folder)
        steps = sorted({made.events[one["event"]][-1] for one in made.header["defects"]})
        self.show("slices", made, "#t=0&w=0")
        self.press("d")
        self.assertEqual(self.step(), steps[0])
        self.press("d")
        self.assertEqual(self.step(), steps[1])
        self.press("Home")
        self.press("d")
        self.assertEqual(self.step(), steps[0])
        self.browser.run(f"location.hash = '#t={steps[2] - 1}&w=1'")
        self.until(f"document.getElementById('step-text').textContent.startsWith('{steps[2] - 1} ')")
        before = self.browser.run("scrollY")
        self.press("d")
        self.assertEqual(self.step(), steps[2])
        self.press("End")
        self.press("d")
        self.assertEqual(self.step(), steps[0])
        self.assertEqual(self.browser.run("scrollY"), before)

    def test_playing_moves_on(self):
        self.open("race", "#t=0&w=0")
        self.browser.run("document.getElementById('speed').value = '40'")
        self.press(" ")
        self.until("document.getElementById('play').textContent === 'Play'")
        self.assertEqual(self.step(), 12)

    def test_addresses(self):
        self.open("transpose", "#t=20&w=3&v=shared")
        self.assertEqual(self.step(), 20)
        self.assertIn("Warp 3", self.text("instruction-title"))
        focused = "document.querySelector('section.focused').id"
        self.assertEqual(self.browser.run(focused), "shared")
        self.press("ArrowRight")
        self.until("location.hash.startsWith('#t=21&w=3')")
        self.open("transpose", "#t=99999999&w=77&v=nothing&s=5&e=123456")
        self.assertEqual(self.step(), 50)
        self.open("transpose", "#garbage")
        self.no_messages()

    def test_start_of_the_builder(self):
        target = self.folder / "start.html"
        start = {"t": 4, "w": 2, "v": "tensors"}
        write_page(self.replays["transpose"], target, start=start, note="Look here.")
        self.pages["start"] = target
        self.addCleanup(self.pages.pop, "start")
        self.open("start")
        self.assertEqual(self.step(), 4)
        self.assertIn("Warp 2", self.text("instruction-title"))
        self.open("start", "#t=9")
        self.assertEqual(self.step(), 9)

    def test_clicks_move_all_views(self):
        self.open("transpose", "#t=0&w=0")
        self.click("[data-key$='13']")
        self.assertIn("reads y", self.text("instruction-title"))
        self.assertIn("transpose.cu:13", self.text("call-path"))
        self.click_at("#timeline-overlay", 0.999, 0.9)
        self.assertEqual(self.step(), 50)
        self.assertIn("Warp 3", self.text("instruction-title"))
        self.click_at("#tensors figure:nth-child(1) canvas", 0.5, 0.02)
        self.assertIn("Warp 0 reads x", self.text("instruction-title"))
        self.click("#findings li:nth-child(1) a")
        self.click_at("#banks", 82, 36)  # bank 0, second row: lane 1
        self.assertIn("lane 1:", self.text("lane-text"))
        self.click_at("#banks", 0.9, 36)  # written by the warp whose row it is
        self.assertIn("Warp 1 writes sTile", self.text("instruction-title"))
        self.open("race", "#t=0")
        self.click_at("#timeline-overlay", 96 + 6.5 / 13 * (1220 - 96), 75)
        self.no_messages()

    def test_sections(self):
        made = synthetic.race(self.folder)
        made.start("second", 2, (1, 0, 0))
        x = made.array("global", "x", 512, shape=[128], type="f32")
        made.access(1, x, [4 * lane for lane in range(32)], 4, site=made.site(4))
        made.end()
        self.show("two", made)
        self.assertIn("Defects1", self.text("summary"))
        self.browser.run(
            "(e => { e.value = '1'; e.dispatchEvent(new Event('change')); "
            "})(document.getElementById('section'))"
        )
        self.assertIn("second", self.text("summary"))
        self.assertIn("Defects0", self.text("summary"))
        self.open("two", "#s=1&t=0&w=1")
        self.assertIn("Warp 1 reads x", self.text("instruction-title"))
        self.no_messages()

    def test_warps_that_do_the_same_share_a_row(self):
        made = synthetic.Synthetic("alike", 8)
        x = made.array("global", "x", 4096, shape=[1024], type="f32")
        for step in range(40):
            for warp in range(8):
                flags = int(warp >= 4 and step % 2 == 0)
                at = [4 * (32 * warp + lane) for lane in range(32)]
                made.access(warp, x, at, 4, flags=flags, site=made.site(1))
        self.show("alike", made)
        height = "document.getElementById('timeline-canvas').offsetHeight"
        folded = self.browser.run(height)
        self.click("#fold")
        self.assertGreater(self.browser.run(height), folded)
        self.click("#fold")
        self.assertEqual(self.browser.run(height), folded)
        # The second row stands for warps 4 to 7.
        self.click_at("#timeline-overlay", 0.5, 0.8)
        self.assertIn("Warp 4", self.text("instruction-title"))
        self.press("ArrowDown")
        self.click_at("#timeline-overlay", 0.7, 0.8)
        self.assertIn("Warp 5", self.text("instruction-title"))

    def test_rows_that_permute_their_elements(self):
        made = synthetic.Synthetic("swizzled", 1)
        layout = {"period": 2, "columns": 4, "places": [0, 1, 2, 3, 6, 7, 4, 5]}
        s = made.array("shared", "sK", 256, element_bytes=4, layout=layout, begin=0)
        made.access(0, s, [8 * lane for lane in range(32)], 4, site=made.site(1))
        self.show("swizzled", made)
        self.assertIn("lane 0: sK[0, 0]", self.text("lane-text"))
        for lane, element in ((1, "[0, 2]"), (2, "[1, 2]"), (3, "[1, 0]"), (4, "[2, 0]")):
            self.click(f"#lanes button:nth-child({lane + 1})")
            self.assertIn(f"lane {lane}: sK{element}", self.text("lane-text"))

    def test_what_a_recording_leaves_out(self):
        made = synthetic.hopper(self.folder)
        for entries in ("sites", "arrays", "barriers", "copies", "products"):
            for entry in made.header[entries]:
                for key in set(entry) - {"lines", "space"}:
                    del entry[key]
        self.show("bare", made)
        for key in ("End", "Home", "n", "w", "ArrowDown", "n", "c", "d"):
            self.press(key)
        self.assertIn("Warp 1", self.text("instruction-title"))
        self.no_messages()

    def test_words_for_those_who_do_not_see(self):
        self.open("transpose")
        labels = self.browser.run(
            "[...document.querySelectorAll('canvas:not([aria-hidden])')].map(e => "
            "e.getAttribute('aria-label'))"
        )
        self.assertIn("Step 18 of 50", labels[0])
        self.assertIn("32 wavefronts where 1 would do", labels[1])
        # A column of sTile is in use, which holds a column of x.
        self.assertIn("x, 32 x 32: 32 elements in use, rows 0 to 31", labels[3])
        self.press("n")
        said = "document.getElementById('live').textContent"
        self.until(f"{said}.startsWith('Step 19. Warp 0 writes y')")


class LargeTest(WatchPageTest):
    def busy(self) -> float:
        """The milliseconds that the page's thread has worked."""
        metrics = self.browser.call("Performance.getMetrics")["metrics"]
        found = {metric["name"]: metric["value"] for metric in metrics}
        return 1000 * found["TaskDuration"]

    def test_size_and_speed(self):
        self.add("large", synthetic.large(self.folder))
        self.addCleanup(self.pages.pop, "large")
        self.addCleanup(self.replays.pop, "large")
        self.assertLess(self.pages["large"].stat().st_size, PAGE_BYTES)
        # Time of the page's thread: that of the clock depends on what else the machine does.
        self.browser.call("Performance.enable", timeDomain="threadTicks")
        self.addCleanup(self.browser.call, "Performance.disable")
        self.open("large", "#t=30000")
        self.assertLess(self.busy(), LOAD_MS)
        keys = [("ArrowRight", False), ("ArrowLeft", True), ("End", False)]
        keys += [("Home", False), ("n", False), ("ArrowDown", False)]
        for key in keys:
            before = self.busy()
            for _ in range(4):
                self.press(*key)
                self.browser.run("new Promise(requestAnimationFrame)")
            self.assertLess((self.busy() - before) / 4, MOVE_MS, key)
        self.assertIn("123,456 events after its end were left out", self.text("left-out"))
        self.no_messages()


if __name__ == "__main__":
    if not chromium.program():
        print("watch.page: there is no Chromium: skipped")
        sys.exit(SKIPPED)
    unittest.main()
