"""Video files: every frame with its own time, upright, and plain words where a file is damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import av
import numpy as np
import pytest
from footage import cut_off, number_of, shade, turn, write_video

from recal3r.sources.base import SourceError
from recal3r.sources.video import Video
from recal3r.types import Frame


def numbers(video: Video) -> list[int]:
    return [number_of(frame.image) for frame in video]


def read_until_error(video: Video) -> tuple[list[Frame], str]:
    frames: list[Frame] = []
    with pytest.raises(SourceError) as caught:
        frames.extend(video)
    return frames, str(caught.value)


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.avi", "mpeg4"), ("a.webm", "libvpx")]
)
def test_every_frame_and_its_time(tmp_path: Path, name: str, codec: str) -> None:
    path = write_video(tmp_path / name, codec=codec)
    with Video(path) as video:
        frames = list(video)
    assert [number_of(frame.image) for frame in frames] == list(range(40))
    np.testing.assert_allclose([frame.timestamp for frame in frames], np.arange(40) / 30, atol=0.6e-3)
    assert frames[0].image.shape == (48, 64, 3)
    assert frames[0].image.dtype == np.uint8
    assert f"{path}: " in video.description
    assert "64x48" in video.description
    assert video.frames in (40, None)


def test_variable_frame_rate(tmp_path: Path) -> None:
    ticks = [0, 900, 9000, 9900, 90000, 90900, 180000]
    video = Video(write_video(tmp_path / "a.mp4", ticks=ticks))
    np.testing.assert_allclose([frame.timestamp for frame in video], np.array(ticks) / 90000, atol=1e-4)


def test_selection_by_number_and_time(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    assert numbers(Video(path, stride=7, start=3, end=25)) == [3, 10, 17, 24]
    assert Video(path, stride=7, start=3, end=25).frames == 4
    assert numbers(Video(path, start_seconds=0.5, end_seconds=0.7)) == [15, 16, 17, 18, 19, 20]
    both = Video(path, start_seconds=0.5, end_seconds=0.7, start=1, stride=2)
    assert numbers(both) == [16, 18, 20], "times select first, then numbers count what is left"
    assert both.frames is None
    assert both.description.endswith(", 0.5 s to 0.7 s, one in 2, frames 1 to the end")
    with pytest.raises(SourceError, match=r"Of the 40 frames that .*a\.mp4 has until 1\.30 s none is selected"):
        list(Video(path, start=40))
    with pytest.raises(SourceError, match="the end comes after the start"):
        Video(path, start_seconds=2, end_seconds=1)


# x_shown = a x + c y, y_shown = b x + d y
TURNS = {
    "as it is": ((1, 0, 0, 1), lambda image: image),
    "clockwise": ((0, 1, -1, 0), lambda image: np.rot90(image, -1)),
    "upside down": ((-1, 0, 0, -1), lambda image: np.rot90(image, 2)),
    "counter-clockwise": ((0, -1, 1, 0), lambda image: np.rot90(image, 1)),
    "mirrored": ((-1, 0, 0, 1), lambda image: image[:, ::-1]),
    "transposed": ((0, 1, 1, 0), lambda image: image.swapaxes(0, 1)),
}


@pytest.mark.parametrize("how", TURNS)
def test_display_matrix(tmp_path: Path, how: str) -> None:
    matrix, turned = TURNS[how]
    path = write_video(tmp_path / "a.mp4", 3)
    plain = next(iter(Video(path))).image
    image = next(iter(Video(turn(path, *matrix)))).image
    np.testing.assert_array_equal(image, turned(plain))
    assert image.flags.c_contiguous


def test_turned_as_ffmpeg_turns(tmp_path: Path) -> None:
    """The direction is FFmpeg's own: PyAV gives its angle, counter-clockwise."""
    path = turn(write_video(tmp_path / "a.mp4", 3), 0, 1, -1, 0)
    with av.open(str(path)) as container:
        decoded = next(container.decode(video=0))
        expected = np.rot90(decoded.to_ndarray(format="rgb24"), decoded.rotation // 90)
    np.testing.assert_array_equal(next(iter(Video(path))).image, expected)


def test_colours_of_both_standards(tmp_path: Path) -> None:
    colour = np.full((48, 64, 3), (200, 60, 30), np.uint8)
    for standard, number in (("itu601", 5), ("itu709", 1)):
        path = tmp_path / f"{standard}.mkv"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=30, options={"crf": "1"})
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            stream.codec_context.colorspace = number
            rgb = av.VideoFrame.from_ndarray(colour, format="rgb24")
            container.mux(stream.encode(rgb.reformat(format="yuv420p", dst_colorspace=standard)))
            container.mux(stream.encode())
        image = next(iter(Video(path))).image
        assert np.abs(image.astype(int) - colour).max() <= 3, standard


@pytest.mark.parametrize(
    ("name", "codec", "muxer"),
    [
        ("index_first.mp4", "libx264", {"movflags": "faststart"}),
        ("fragments.mp4", "libx264", {"movflags": "frag_keyframe+empty_moov"}),
        ("a.avi", "mpeg4", {}),
        ("a.mkv", "libx264", {}),
        ("a.webm", "libvpx", {}),
    ],
)
def test_truncated_in_the_middle(tmp_path: Path, name: str, codec: str, muxer: dict[str, str]) -> None:
    path = cut_off(write_video(tmp_path / name, 90, codec=codec, **muxer), 0.6)
    frames, sentence = read_until_error(Video(path))
    read = [number_of(frame.image) for frame in frames]
    assert len(read) > 10
    assert read == sorted(read), "only whole pictures, in order"
    assert np.abs(frames[-1].image.astype(int) - shade(read[-1])).mean() < 8, "no grey where data is missing"
    assert f"{path} is damaged after {len(read)} frames, which were read" in sentence

    accepting = Video(path, skip_broken=True)
    assert numbers(accepting)[: len(read)] == read
    assert accepting.skipped.count >= 1


def test_truncated_before_its_index(tmp_path: Path) -> None:
    path = cut_off(write_video(tmp_path / "a.mp4"), 0.6)
    with pytest.raises(SourceError, match=r"cut_a\.mp4 cannot be opened as a video"):
        Video(path)


def test_damage_in_the_middle_can_be_skipped(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    with av.open(str(path)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][20]
    content = bytearray(path.read_bytes())
    content[packet.pos + 4 : packet.pos + packet.size] = b"\xff" * (packet.size - 4)
    path.write_bytes(content)
    frames, sentence = read_until_error(Video(path))
    assert len(frames) < 30
    assert "is damaged after" in sentence
    video = Video(path, skip_broken=True)
    read = numbers(video)
    assert (read[:15], read[-15:], len(read)) == (list(range(15)), list(range(25, 40)), 39)
    assert video.skipped.count == 1


def test_files_that_are_no_videos(tmp_path: Path) -> None:
    empty, text, sound = tmp_path / "empty.mp4", tmp_path / "text.mp4", tmp_path / "sound.mp4"
    empty.touch()
    text.write_text("These are words.\n" * 100)
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux([*stream.encode(frame), *stream.encode()])
    for path, why in ((empty, "is empty"), (text, "cannot be opened as a video"), (sound, "has no pictures")):
        with pytest.raises(SourceError, match=why) as caught:
            Video(path)
        assert str(path) in str(caught.value)
        assert str(caught.value).count("\n") == 0
    with pytest.raises(SourceError, match=r"missing\.mp4 cannot be opened \(No such file or directory\)"):
        Video(tmp_path / "missing.mp4")


def test_a_playlist_cannot_reach_the_network(tmp_path: Path) -> None:
    path = tmp_path / "a.ts"
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(SourceError, match=r"a\.ts"):
        list(Video(path))


def test_closing_ends_a_reading(tmp_path: Path) -> None:
    with Video(write_video(tmp_path / "a.mp4")) as video:
        one, other = iter(video), iter(video)
        assert number_of(next(one).image) == number_of(next(other).image) == 0, "readings do not disturb each other"
        assert number_of(next(one).image) == 1
    assert next(one, None) is None
    assert next(other, None) is None


@pytest.mark.parametrize("name", ["bedroom.mp4", "valley.mp4"])
def test_real_clips_as_pyav_counts(shared: Path, name: str) -> None:
    path = shared / "real" / "clips" / name
    with av.open(str(path)) as container:
        times = [frame.time for frame in container.decode(video=0)]
    video = Video(path)
    assert [frame.timestamp for frame in video] == pytest.approx(times, abs=1e-12)
    assert video.frames == len(times)


@pytest.mark.parametrize("name", ["bedroom.mp4", "valley.mp4"])
def test_real_clips_as_ffprobe_counts(shared: Path, name: str) -> None:
    if shutil.which("ffprobe") is None:
        pytest.skip("needs ffprobe (Debian: apt-get install ffmpeg)")
    path = shared / "real" / "clips" / name
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "json"]
    printed = subprocess.run([*command, str(path)], check=True, capture_output=True, text=True).stdout
    times = [float(frame["pts_time"]) for frame in json.loads(printed)["frames"]]
    assert [frame.timestamp for frame in Video(path)] == pytest.approx(times, abs=0.6e-6)  # it prints six digits
