"""The report: whole in one file, the same for the same stream, bounded, and true."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from walks import Shown, interrupted, shown, walk, window_of, written

from recal3r.errors import OutputError
from recal3r.sinks import ReportSink
from recal3r.sinks.report_charts import number, upright
from recal3r.sinks.thinned import Curves
from recal3r.types import Prediction

VOID = {"meta", "img", "input", "br", "link"}
TIMINGS = re.compile(r'(<script type="application/json" id="timings">)(.*?)(</script>)', re.DOTALL)
ABOUT = {"source": {"description": "a made-up room"}, "settings": {"rule": "recal3r(beta_base=0.1)", "size": None}}


class Page(HTMLParser):
    """Elements with their attributes and text; that all are closed in order is checked on the way."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.text.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.found
            if name == tag and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def pairs() -> list[Shown]:
    return shown(walk(20))


def charts(page: Page) -> dict[str, dict[str, list[float | None]]]:
    titles = [
        svg["aria-label"].removesuffix(" over time") for svg in page.all("svg") if "over time" in svg["aria-label"]
    ]
    return dict(zip(titles, (json.loads(f["data-values"]) for f in page.all("figure", class_="chart")), strict=True))


def test_what_it_shows_is_true(pairs: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    written(ReportSink(path, about=ABOUT, moments=8), pairs)
    page = Page(path)
    assert "a made-up room" in page.words
    assert "settings.rule recal3r(beta_base=0.1) settings.size null" in page.words
    centres = np.stack([prediction.T_world_camera[:3, 3] for prediction, _ in pairs])
    walked = np.linalg.norm(np.diff(centres, axis=0), axis=1).sum()
    assert f"20 frames {number(walked)} metres walked" in page.words

    found = charts(page)
    assert len(found) == 2 + 8
    confidence = [prediction.confidence_camera for prediction, _ in pairs]
    np.testing.assert_allclose(found["Confidence"]["y"], [c.mean() for c in confidence], rtol=1e-3)
    np.testing.assert_allclose(found["Confidence"]["high"], [np.quantile(c, 0.9) for c in confidence], rtol=1e-3)
    rates = [prediction.learning_rate for prediction, _ in pairs]
    np.testing.assert_allclose(found["β, how far tokens move"]["low"], [np.quantile(r, 0.1) for r in rates], rtol=1e-3)
    assert found["Residual r"]["y"] == [None, *(float(f"{p.signals['residual'][0]:.4g}") for p, _ in pairs[1:])]
    assert "low" not in found["Residual r"]
    assert found["Memory horizon"]["y"][0] == 0


def test_the_map_is_to_scale(pairs: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    written(ReportSink(path, about={}), pairs)
    page = Page(path)
    T = np.stack([prediction.T_world_camera for prediction, _ in pairs])
    centres = T[:, :3, 3] @ upright(T[:, :3, :3]).T
    (map_,) = [svg for svg in page.all("svg") if svg["aria-label"] == "trajectory from above"]
    width, height = map(float, map_["viewbox"].split()[2:])
    drawn = [line["d"] for line in page.all("path") if line.get("stroke")]
    places = np.array([list(map(float, place.split())) for place in drawn[0][1:].split("L")])
    np.testing.assert_allclose(places[1] - places[0], (centres[1] - centres[0])[[0, 2]] * (1, -1), atol=2e-4)
    assert len({line["stroke"] for line in page.all("path") if line.get("stroke")}) == 20, "coloured by time"
    assert places.min() > 0
    assert (places < (width, height)).all()
    (scale,) = page.all("div", class_="scale")
    share = float(re.search(r"width:([\d.]+)%", scale["style"])[1]) / 100
    metres = float(re.search(r"([\d.]+) m\b", page.words.split("From above")[1])[1])
    assert metres == pytest.approx(share * width, rel=1e-3)
    (image,) = page.all("image")
    picture = np.asarray(Image.open(io.BytesIO(b64decode(image["href"].partition(",")[2]))))
    assert (picture[..., 3] == 255).mean() > 0.1, "and what lies below the cameras"
    assert picture[picture[..., 3] > 0][:, :3].std() > 10, "in colour"


def test_upright_is_what_cameras_agree_on() -> None:
    """Cameras that nod up and down about the level, in a world that stands on its head and is turned."""
    angles = np.radians([-30, 0, 30, 10, -10])
    nods = np.stack([[[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]] for a in angles])
    world = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    world *= np.sign(np.linalg.det(world))
    R = upright(world @ nods)
    np.testing.assert_allclose(R @ world, np.eye(3), atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1)


def test_pictures(pairs: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    sure = [(replace(p, reliability=np.full(p.depth.shape, 0.25)) if p.index else p, i) for p, i in pairs[:3]]
    written(ReportSink(path, about={}), sure)
    page = Page(path)
    kinds = [img["alt"] for img in page.all("img")]
    assert kinds == ["picture", "depth", "confidence"] + 2 * ["picture", "depth", "confidence", "reliability"]
    assert "no reliability" in page.words
    images = [np.asarray(Image.open(io.BytesIO(b64decode(img["src"].partition(",")[2])))) for img in page.all("img")]
    expected = np.asarray(Image.fromarray(pairs[0][1]).resize((64, 48), Image.Resampling.BILINEAR))
    assert np.abs(images[0].mean(-1) - expected.mean(-1)).mean() < 6
    near = pairs[0][0].depth < np.quantile(pairs[0][0].depth, 0.3)
    assert images[1].mean(-1)[near].mean() > images[1].mean(-1)[~near].mean() + 20, "near is bright"
    assert images[-1].mean((0, 1)) == pytest.approx([59, 82, 139], abs=8), "a quarter of viridis"
    low, high = np.percentile(pairs[0][0].depth, (2, 98))
    assert f"depth {low:.2g} – {high:.2g} m" in page.words


def test_nothing_is_loaded(pairs: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    written(ReportSink(path, about=ABOUT), pairs[:4])
    content = path.read_text()
    assert "http" not in content
    assert "@import" not in content
    assert not re.search(r"url\(", content)
    linked = [a[key] for _, a in Page(path).found for key in ("src", "href", "srcset", "data", "action") if a.get(key)]
    assert len(linked) == 4 * 3 + 1
    assert all(link.startswith("data:image/") for link in linked)


def test_only_timings_differ(pairs: list[Shown], tmp_path: Path) -> None:
    pages: list[str] = []
    for seconds in (1.5, 99.0):
        (tmp_path / "timings.json").write_text(json.dumps({"seconds": seconds, "stages": {"network": seconds / 2}}))
        written(ReportSink(tmp_path / "report.html", about=ABOUT, overwrite=True), pairs)
        pages.append((tmp_path / "report.html").read_text())
    assert pages[0] != pages[1]
    assert TIMINGS.sub(r"\1\3", pages[0]) == TIMINGS.sub(r"\1\3", pages[1])
    assert json.loads(TIMINGS.search(pages[1])[2])["seconds"] == 99


def test_what_the_run_says_of_itself(pairs: list[Shown], tmp_path: Path) -> None:
    run = {**ABOUT, "versions": {"torch": "9.9"}, "frames": 7, "complete": False}
    (tmp_path / "run.json").write_text(json.dumps(run))
    written(ReportSink(tmp_path / "report.html"), pairs[:2])
    words = Page(tmp_path / "report.html").words
    assert "versions.torch 9.9" in words
    assert "complete" not in words, "which is not known before the end"
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(OutputError, match=r"run\.json cannot be read"):
        written(ReportSink(tmp_path / "other.html"), pairs[:2])


def make(path: Path) -> ReportSink:
    return ReportSink(path, about=ABOUT, moments=4)


@pytest.mark.parametrize(("at", "lost"), [(0, 3), (1, 1), (7, 5), (19, 1)])
def test_resumed_files_are_the_same(pairs: list[Shown], tmp_path: Path, at: int, lost: int) -> None:
    written(make(tmp_path / "whole"), pairs)
    interrupted(make, tmp_path / "killed", pairs, at, lost)
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_bounded_however_long(tmp_path: Path) -> None:
    pairs = shown(walk(20), window_of(96, 72, "auto", side=32))

    def length_of(frames: int) -> int:
        path = tmp_path / f"{frames}.html"
        with ReportSink(path, about={}, moments=4) as sink:
            for index in range(frames):
                prediction, image = pairs[1 + index % 19]
                sink.write(replace(prediction, index=index), image)
        page = Page(path)
        assert 2 <= len(page.all("img", alt="picture")) <= 4
        assert all(len(values["x"]) <= 300 for values in charts(page).values())
        return path.stat().st_size

    assert length_of(1200) < 1.02 * length_of(600)


def test_an_interrupted_run_says_so(pairs: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"

    def run() -> None:
        with ReportSink(path, about={}) as sink:
            sink.write(*pairs[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert "Ended before its time. KeyboardInterrupt" in Page(path).words


def test_streams_of_nothing_and_of_little(pairs: list[Shown], tmp_path: Path) -> None:
    written(ReportSink(tmp_path / "empty.html", about={}), [])
    assert "No frame was written." in Page(tmp_path / "empty.html").words
    bare = replace(pairs[1][0], learning_rate=None, signals={}, timestamp=None)
    written(ReportSink(tmp_path / "one.html", about={}), [(bare, None)])
    page = Page(tmp_path / "one.html")
    assert list(charts(page)) == ["Confidence"]
    assert "Gates" not in page.words
    holes = replace(pairs[1][0], depth=np.full((48, 64), np.nan), points_world=np.full((48, 64, 3), np.nan))
    written(ReportSink(tmp_path / "holes.html", about={}), [(holes, None)])
    assert not Page(tmp_path / "holes.html").all("image")
    still = replace(pairs[1][0], learning_rate=np.zeros(24))
    written(ReportSink(tmp_path / "still.html", about={}), [(still, None), (replace(still, index=1), None)])
    page = Page(tmp_path / "still.html")
    assert "∞ frames remembered" in page.words
    assert "Memory horizon" not in charts(page)


def test_what_others_say_is_text(pairs: list[Shown], tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    (tmp_path / "timings.json").write_text(json.dumps({"seconds": evil}))
    path = tmp_path / "report.html"
    prediction = replace(pairs[1][0], signals={evil: np.ones(24)})
    written(ReportSink(path, about={"source": evil, evil: {evil: evil}}), [(prediction, pairs[1][1])])
    page = Page(path)
    assert len(page.all("script")) == 2
    assert all(link.startswith("data:") for _, a in page.found for link in [a.get("src")] if link)
    assert json.loads(TIMINGS.search(path.read_text())[2])["seconds"] == evil


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OutputError, match="exists already"), ReportSink(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
    with pytest.raises(OutputError, match="does not exist"), ReportSink(tmp_path / "no" / "r.html"):
        pass
    with ReportSink(tmp_path / "r.html") as sink, pytest.raises(OutputError, match="needs 'camera'"):
        sink.write(Prediction(0))


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (0.12345, "0.123"), (12.3456, "12.3"), (1234.5, "1,234"), (12345, "12.3k"), (3e6, "3M")],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert number(value) == said


def test_every_scale_holds_its_numbers(tmp_path: Path, pairs: list[Shown]) -> None:
    """Lines stay inside their charts, whatever the size of the numbers."""
    for place, size in enumerate((1e-9, 0.03, 0.7, 1.0, 3.0, 250.0, 1e7, -4.0)):
        path = tmp_path / f"{place}.html"
        with ReportSink(path, about={}) as sink:
            for prediction, image in pairs[1:6]:
                sink.write(replace(prediction, signals={"x": size * np.array([prediction.index / 5])}), image)
        heights = re.findall(r'class="line" d="([^"]*)"', path.read_text())
        drawn = [float(y) for line in heights for y in re.findall(r"[ML][\d.]+ (-?[\d.]+)", line)]
        assert len(drawn) >= 15
        assert min(drawn) >= -0.05
        assert max(drawn) <= 300.05


def test_curves_are_what_is_drawn() -> None:
    curves = Curves(4)
    for value in (1.0, 2.0, np.inf):
        curves.add({"horizon": value})
    assert curves.mean("horizon").tolist()[:2] == [1, 2], "an endless horizon is a gap"
    assert np.isnan(curves.mean("horizon")[2])


@pytest.mark.slow
def test_a_browser_runs_it(pairs: list[Shown], tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium (Debian: apt-get install chromium)")
    (tmp_path / "timings.json").write_text(json.dumps({"frames_per_second": 12.5, "stages": {"network": 1.0}}))
    written(ReportSink(tmp_path / "report.html", about=ABOUT), pairs)
    quiet = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = f"--disable-component-update --disable-sync --user-data-dir={tmp_path / 'profile'} --dump-dom"
    command = [browser, *quiet.split(), *more.split(), (tmp_path / "report.html").as_uri()]
    dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "<th>frames per second</th><td>12.5</td>" in dom, "the script has run to its end"
    assert "<th>stages.network</th>" in dom
    assert '<section id="time">' in dom
