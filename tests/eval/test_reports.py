"""Tables and figures on results whose numbers are chosen: what is best, what is second, what is missing."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eval.made_up import SEQUENCES, folder_of, result, some_results, walk, without
from recal3r.errors import EvalError
from recal3r.eval.contestants import BETA_BASES, EVERYONE, called
from recal3r.eval.figures import FromAbove, read_paces
from recal3r.eval.findings import MISSING, Findings, read_findings
from recal3r.eval.page import write_report
from recal3r.eval.protocol import PROTOCOLS, protocol
from recal3r.eval.published import published
from recal3r.eval.sweep.roll import read_rolls
from recal3r.eval.tables import WRITERS, Table, tables_of
from recal3r.eval.tasks import TASKS
from recal3r.eval.walks import read_walk

ACCURACIES = {"cut3r": 0.150, "ttt3r": 0.040, "recal3r": 0.025, "constant(0.1)": 0.030}


def findings_of(folder: Path) -> Findings:
    (roll,) = read_rolls(folder)
    return read_findings(folder, roll)


def accuracy(folder: Path) -> Table:
    return next(table for table in tables_of(findings_of(folder)) if table.measure.name == "acc")


# -- published numbers -----------------------------------------------------------------------------------------------


def test_every_published_number_has_its_place_here() -> None:
    """Protocols, contestants and metrics of the paper are called as ours are, so each number meets one of ours."""
    import recal3r.eval.published as module

    numbers = json.loads(Path(module.__file__).with_name("published.json").read_text())
    del numbers["_about"]
    names = {one.name for one in (*EVERYONE, *BETA_BASES)}
    for asked, contestants in numbers.items():
        metrics = {measure.name for measure in PROTOCOLS[asked].task.metrics}
        for contestant, lengths in contestants.items():
            assert contestant in names
            for length, values in lengths.items():
                assert set(values) <= metrics
                for metric, value in values.items():
                    assert published(asked, contestant, int(length), metric) == value


def test_published_numbers_are_those_of_the_paper(shared: Path) -> None:
    ours = json.loads((Path(__file__).parents[2] / "src/recal3r/eval/published.json").read_text())
    assert ours == json.loads((shared / "paper_results.json").read_text())


def test_what_the_paper_does_not_say_is_not_made_up() -> None:
    assert published("reconstruction/7scenes", "recal3r", 300, "acc") == 0.023
    assert np.isnan(published("reconstruction/7scenes", "recal3r", 300, "acc_median"))
    assert np.isnan(published("reconstruction/7scenes", "recal3r", None, "acc"))
    assert np.isnan(published("reconstruction/7scenes with task.icp=null", "recal3r", 300, "acc"))
    assert np.isnan(published("pose/kitti", "recal3r", 300, "ate"))


# -- tables ----------------------------------------------------------------------------------------------------------


def test_best_and_second_ours_and_the_papers(tmp_path: Path) -> None:
    table = accuracy(folder_of(tmp_path, some_results(ACCURACIES)))
    assert table.places(300) == {"recal3r": 1, "constant(0.1)": 2}
    assert table.published_places(300) == {"recal3r": 1, "ttt3r": 2}
    cell = table.rows["recal3r"][300]
    assert (cell.ours.mean, cell.published) == (pytest.approx(0.025), 0.023)
    assert cell.difference == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("suffix", "best", "second", "difference"),
    [
        (
            ".md",
            r"\| recal3r \| \*\*0\.025\*\* \| \*\*0\.023\*\* \| \+0\.002 \|",
            r"<u>0\.030</u> \| – \| – \|",
            "+0.002",
        ),
        (
            ".tex",
            r"recal3r & \\textbf\{0\.025\} & \\textbf\{0\.023\} & \$\+0\.002\$ \\\\",
            r"constant\(0\.1\) & \\underline\{0\.030\} & -- & --",
            "$+0.002$",
        ),
        (
            ".html",
            r"<th>recal3r</th><td><b>0\.025</b></td><td><b>0\.023</b></td><td>\+0\.002</td>",
            r"<td><u>0\.030</u></td><td>–</td>",
            "+0.002",
        ),
    ],
)
def test_formats_for_people(suffix: str, best: str, second: str, difference: str, tmp_path: Path) -> None:
    text = WRITERS[suffix](accuracy(folder_of(tmp_path, some_results(ACCURACIES))))
    assert re.search(best, text), text
    assert re.search(second, text), text
    assert text.count(difference) == 1
    assert all(name in text for name in ACCURACIES)


def test_the_format_for_programs(tmp_path: Path) -> None:
    text = WRITERS[".csv"](accuracy(folder_of(tmp_path, some_results(ACCURACIES))))
    rows = {row["contestant"]: row for row in csv.DictReader(text.splitlines())}
    assert float(rows["recal3r"]["mean"]) == pytest.approx(0.025)
    assert float(rows["recal3r"]["low"]) < 0.025 < float(rows["recal3r"]["high"])
    assert float(rows["ttt3r"]["difference"]) == pytest.approx(0.040 - 0.044)
    assert (rows["constant(0.1)"]["published"], rows["constant(0.1)"]["place"]) == ("", "2")
    assert rows["cut3r"]["sequences"] == rows["cut3r"]["of"] == "3"


def test_higher_is_better_where_it_is(tmp_path: Path) -> None:
    values = {"cut3r": 0.5, "ttt3r": 0.7, "recal3r": 0.6}
    results = [result(one, 300, name, {"nc": values[one.name]}) for one in called(*values) for name in SEQUENCES]
    tables = {table.measure.name: table for table in tables_of(findings_of(folder_of(tmp_path, results)))}
    assert tables["nc"].places(300) == {"ttt3r": 1, "recal3r": 2}
    assert tables["acc"].places(300) == {}, "who has no number has no place"


def test_who_is_as_good_shares_a_place(tmp_path: Path) -> None:
    equal = {"cut3r": 0.0251, "ttt3r": 0.0249, "recal3r": 0.030}
    assert accuracy(folder_of(tmp_path, some_results(equal))).places(300) == {"cut3r": 1, "ttt3r": 1, "recal3r": 2}


def test_a_mean_of_fewer_sequences_says_so_and_is_never_the_best(tmp_path: Path) -> None:
    results = without(some_results(ACCURACIES), "fire/seq-03", "recal3r", "the picture is broken")
    missing = [one for one in results if (one.sequence, one.contestant) != ("heads/seq-01", "ttt3r")]
    folder = folder_of(tmp_path, missing)
    table = accuracy(folder)
    assert table.places(300) == {"constant(0.1)": 1, "cut3r": 2}
    text = WRITERS[".md"](table)
    assert "| recal3r | 0.025 (2 of 3) |" in text
    assert "0.0395 (2 of 3)" not in text
    write_report(folder)
    for name in ("report.md", "report.html"):
        page = (folder / name).read_text()
        assert "2 results are missing" in page
        assert "reconstruction/7scenes, recal3r, 300 frames, fire/seq-03: the picture is broken" in page
        assert f"reconstruction/7scenes, ttt3r, 300 frames, heads/seq-01: {MISSING}" in page


def test_sequences_count_as_their_protocol_weighs_them(tmp_path: Path) -> None:
    asked = protocol("video-depth/bonn")
    values = zip(("balloon2", "crowd2"), (0.1, 0.2), (3.0, 1.0), strict=True)
    results = [
        result(one, 300, name, {"abs_rel": value}, weight=weight, protocol=asked)
        for name, value, weight in values
        for one in called("cut3r")
    ]
    tables = tables_of(findings_of(folder_of(tmp_path, results, asked, ("balloon2", "crowd2"))))
    assert tables[0].rows["cut3r"][300].ours.mean == pytest.approx(0.125)


def test_the_page_says_who_can_be_told_apart_from_the_first(tmp_path: Path) -> None:
    names = tuple(f"scene-{k}" for k in range(6))
    gains = {"cut3r": 0.0, "ttt3r": 0.01, "recal3r": -0.01, "ttsa3r": 0.0}
    wobble = {"cut3r": 0.0, "ttt3r": 0.002, "recal3r": 0.002, "ttsa3r": 0.002}
    results = [
        result(one, 300, name, {"acc": 0.1 * (k + 1) + gains[one.name] + wobble[one.name] * (-1) ** k})
        for k, name in enumerate(names)
        for one in called(*gains)
    ]
    folder = folder_of(tmp_path / "six", results, names=names)
    write_report(folder)
    said = "reconstruction/7scenes, Acc (m): better: recal3r; worse: ttt3r; not told apart: ttsa3r"
    assert said in (folder / "report.md").read_text()
    assert said in (folder / "report.html").read_text()
    assert "cut3r → recal3r" in (folder / "tables" / "made-up-against-cut3r.md").read_text()
    few = folder_of(tmp_path / "few", some_results(ACCURACIES))
    write_report(few)
    assert "Acc (m): 3 sequences are too few to tell anything apart" in (few / "report.md").read_text()


def test_every_task_is_known_by_the_name_results_have() -> None:
    assert {type(one.task).__name__ for one in PROTOCOLS.values()} == set(TASKS)


# -- the page and its figures ----------------------------------------------------------------------------------------


def test_a_whole_report(tmp_path: Path) -> None:
    asked = protocol("pose/scannet-50")
    scenes = ("scene0707_00", "scene0709_00")
    errors = {"cut3r": 0.5, "recal3r": 0.2}
    results = [
        result(one, length, scene, {"ate": errors[one.name] + 0.01 * k}, protocol=asked)
        for one in called(*errors)
        for length in (50, 300)
        for k, scene in enumerate(scenes)
    ]
    folder = folder_of(tmp_path, results, asked, scenes)
    for one in results:
        walk(one.contestant, asked.name, one.length or 0, one.sequence, folder / "trajectories")
    for name, rate in (("cut3r", 30.0), ("recal3r", 20.0)):
        path = folder / "speed" / name / "scene0707_00.json"
        path.parent.mkdir(parents=True)
        speed = {"frames_per_second": rate, "device": "cpu", "device_bytes": None, "host_bytes": 5e8}
        path.write_text(json.dumps({"contestant": name, **speed}))
    write_report(folder)
    page = (folder / "report.md").read_text()
    for link in re.findall(r"\]\((figures/[^)]+\.png)\)", page):
        assert np.asarray(Image.open(folder / link).convert("L")).std() > 10, f"{link} is blank"
    drawn = sorted(path.name for path in (folder / "figures").iterdir())
    kinds = ("pose-scannet-50-rules-over-length", "pose-scannet-50-rules-from-above", "speed-and-memory")
    assert drawn == sorted(f"made-up-{kind}{suffix}" for kind in kinds for suffix in (".png", ".svg"))
    assert {path.suffix for path in (folder / "tables").iterdir()} == set(WRITERS)
    assert "2 sequences are too few" in page
    assert (folder / "report.html").read_text().count("<table>") == len(asked.task.metrics)
    assert read_paces(folder / "speed", ("cut3r", "recal3r", "ttt3r"))["recal3r"] == (20.0, 0.5, "cpu")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_report(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_trajectories_are_read_as_they_were_written(tmp_path: Path) -> None:
    walk("cut3r", "pose/kitti", 20, "00", tmp_path)
    found = read_walk(tmp_path, "pose/kitti", "cut3r", 20, "00")
    assert found is not None
    assert found.truth[-1, :3, 3] == pytest.approx([4, np.sin(6), 0], abs=1e-8)
    assert read_walk(tmp_path, "pose/kitti", "recal3r", 20, "00") is None
    path = tmp_path / "pose-kitti" / "cut3r" / "20" / "00.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(EvalError, match="different frames"):
        read_walk(tmp_path, "pose/kitti", "cut3r", 20, "00")


def test_evo_reads_our_trajectories(tmp_path: Path) -> None:
    """And finds what we found: published research files put the quaternion's parts in another order."""
    tools, sync = pytest.importorskip("evo.tools.file_interface"), pytest.importorskip("evo.core.metrics")
    from recal3r.eval.metrics.pose import ate

    walk("cut3r", "pose/kitti", 20, "00", tmp_path)
    found = read_walk(tmp_path, "pose/kitti", "cut3r", 20, "00")
    estimate, truth = (
        tools.read_tum_trajectory_file(str(tmp_path / "pose-kitti" / who / "20" / "00.txt"))
        for who in ("cut3r", "truth")
    )
    estimate.align(truth, correct_scale=True)
    error = sync.APE(sync.PoseRelation.translation_part)
    error.process_data((truth, estimate))
    assert found is not None
    assert error.get_statistic(sync.StatisticsType.rmse) == pytest.approx(ate(found.estimate, found.truth), abs=1e-6)


def test_from_above_is_along_what_a_path_spreads_least_in() -> None:
    rng = np.random.default_rng(0)
    floor = rng.normal(size=(50, 3)) * (3.0, 0.01, 1.0)  # up is y
    seen = FromAbove.of(floor)(floor)
    np.testing.assert_allclose(np.abs(seen.std(0)), floor[:, [0, 2]].std(0), rtol=0.05)


def test_a_folder_without_a_sweep_is_said(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="holds no sweep"):
        write_report(tmp_path)
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "x.json").write_text("{}")
    with pytest.raises(EvalError, match="does not describe a sweep"):
        write_report(tmp_path)
