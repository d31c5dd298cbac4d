"""Recordings and the pages that are made of them, without a browser."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

from tools.watch import packing, page
from tools.watch.recording import NONE, WatchError, parse, read

from . import synthetic

ROOT = Path(__file__).resolve().parents[2]


def unpacked(text: str, count: int) -> dict[str, list[int]]:
    """The columns of a page's events: what recording.js does."""
    data = zlib.decompress(base64.b64decode(text))
    columns, at = {}, 0
    for number, name in enumerate(packing.COLUMNS):
        size = 1 if number < 4 else 4
        planes = [data[at + byte * count :][:count] for byte in range(size)]
        columns[name] = [sum(plane[i] << 8 * byte for byte, plane in enumerate(planes)) for i in range(count)]
        at += size * count
    times: dict[int, int] = {}
    offsets: dict[tuple, int] = {}
    for i in range(count):
        warp, site = columns["warp"][i], columns["site"][i]
        times[warp] = columns["time"][i] = (times.get(warp, 0) + columns["time"][i]) & NONE
        key = (site, warp)
        offsets[key] = (offsets.get(key, 0) + columns["offset"][i]) & NONE
        columns["offset"][i] = offsets[key]
        distance = columns["link"][i]
        columns["link"][i] = (i - distance) & NONE if distance else NONE
    return columns


class WatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-watch-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def made(self, name: str) -> Path:
        return synthetic.ALL_OF_THEM[name](self.folder).write(self.folder / f"{name}.rec")

    def data_of(self, path: Path) -> dict:
        text = path.read_text(encoding="utf-8")
        return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


class PackingTest(WatchTest):
    def test_events_survive(self):
        for name in synthetic.ALL_OF_THEM:
            recording = read(self.made(name))
            columns = unpacked(packing.pack_events(recording), recording.count)
            for column in packing.COLUMNS:
                self.assertEqual(columns[column], list(recording.column(column)), (name, column))

    def test_short_file_is_whole_and_long_file_is_not(self):
        source = self.folder / "long.cuh"
        lines = [f"line {number}" for number in range(1, packing.WHOLE_FILE + 300)]
        source.write_text("\n".join(lines), encoding="utf-8")
        header = {"sites": [{"lines": [f"{source}:100", f"{source}:900"]}]}
        (file,), sites = packing.sources_of(header, ROOT)
        self.assertEqual(sites, [[[0, 100], [0, 900]]])
        self.assertEqual([r["first"] for r in file["ranges"]], [75, 875])
        self.assertIn("line 100", file["ranges"][0]["lines"])
        source.write_text("\n".join(lines[:100]), encoding="utf-8")
        (file,), _ = packing.sources_of(header, ROOT)
        self.assertEqual(file["ranges"], [{"first": 1, "lines": lines[:100]}])

    def test_sources_of_another_machine(self):
        path = "/elsewhere/repository/tools/watch/../watch/page.py"
        (file,), _ = packing.sources_of({"sites": [{"lines": [f"{path}:3"]}]}, ROOT)
        self.assertEqual(file["name"], "tools/watch/page.py")
        self.assertNotIn("missing", file)

    def test_missing_source(self):
        header = {"sites": [{"lines": ["/no/such/file.cuh:7"]}]}
        (file,), sites = packing.sources_of(header, ROOT)
        self.assertTrue(file["missing"])
        self.assertEqual((file["ranges"], sites), ([], [[[0, 7]]]))


class RecordingTest(WatchTest):
    def refused(self, data: bytes, message: str) -> None:
        with self.assertRaises(WatchError) as caught:
            parse(data, "x.rec")
        self.assertRegex(str(caught.exception), message)
        self.assertNotIn("\n", str(caught.exception))

    def test_what_is_not_a_recording_is_refused(self):
        whole = self.made("race").read_bytes()
        length = int.from_bytes(whole[8:12], "little")
        self.refused(b"", "not a recording")
        self.refused(b"\x7fELF" + bytes(100), "not a recording")
        self.refused(b"GPUSIMR2" + whole[8:], "'2'.*reads format 1")
        self.refused(whole[:10], "cut off in its header")
        self.refused(whole[: 12 + length // 2], "cut off in its header")
        self.refused(whole[:-32], "cut off: 49 of 50 events")
        self.refused(whole[:12] + b"x" * length + whole[12 + length :], "not JSON")
        empty = whole[12 : 12 + length].replace(b'"sections": [', b'"section_": [')
        self.refused(whole[:12] + empty + whole[12 + length :], "no block was recorded")

    def test_optional_lists_may_be_missing(self):
        header = json.dumps({"sections": [{}], "event_count": 0}).encode()
        data = b"GPUSIMR1" + len(header).to_bytes(4, "little") + header
        recording = parse(data)
        self.assertEqual((recording.count, recording.header["defects"]), (0, []))


class PageTest(WatchTest):
    def run_tool(self, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "tools.watch", *map(str, arguments)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_command(self):
        target = self.folder / "new" / "page.html"
        options = ("--title", "A <b>", "--note", "Look & see", "--start", 7)
        done = self.run_tool(self.made("race"), target, *options)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        text = target.read_text(encoding="utf-8")
        self.assertIn("<h1>A &lt;b&gt;</h1>", text)
        self.assertIn("Look &amp; see", text)
        self.assertEqual(self.data_of(target)["start"], {"t": 7})
        self.assertEqual([p.name for p in target.parent.iterdir()], ["page.html"])

    def test_errors_are_one_line_and_leave_nothing(self):
        recording, page_path = self.made("race"), self.folder / "page.html"
        for arguments, words in (
            ((self.folder / "no.rec", page_path), "No such file"),
            ((Path(__file__), page_path), "not a recording"),
            ((recording, recording / "page.html"), "Not a directory|File exists"),
            ((recording, self.folder), "Is a directory"),
        ):
            before = sorted(self.folder.rglob("*"))
            done = self.run_tool(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^watch: .*({words}).*\n$")
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_a_page_that_exists_survives_an_error(self):
        target = self.folder / "page.html"
        target.write_text("before")
        with self.assertRaises(WatchError):
            page.write_page(Path(__file__), target)
        self.assertEqual(target.read_text(), "before")

    def test_nothing_in_a_source_ends_the_script(self):
        source = self.folder / "race.cu"
        recording = self.made("race")
        source.write_text("</script><!-- @@DATA@@\n" + synthetic.RACE)
        target = self.folder / "page.html"
        page.write_page(recording, target)
        lines = self.data_of(target)["files"][0]["ranges"][0]["lines"]
        self.assertEqual(lines[0], "</script><!-- @@DATA@@")
        self.assertEqual(target.read_text().count("</script>"), 3)

    def test_shapes_from_the_caller(self):
        made = synthetic.race(self.folder)
        del made.header["arrays"][0]["shape"], made.header["arrays"][0]["type"]
        target = self.folder / "page.html"
        tensors = {"x": {"shape": [2, 64], "bytes": 512}}
        page.write_page(made.write(self.folder / "x.rec"), target, tensors=tensors, start={"w": 1})
        x = self.data_of(target)["header"]["arrays"][0]
        self.assertEqual((x["shape"], x["element_bytes"]), ([2, 64], 4))


if __name__ == "__main__":
    unittest.main()
