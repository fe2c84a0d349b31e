"""A video, or a folder of pictures, in; where the camera stood at each frame out.

Run it:  python examples/02_video.py WEIGHTS VIDEO      (say, cut3r-512 and clip.mp4; videos need recal3r[video])
"""

from __future__ import annotations

import sys

import recal3r


def main(weights: str, video: str) -> None:
    model = recal3r.load_model(weights)
    recon = recal3r.Reconstructor(model, rule="recal3r", outputs=("pose",))
    with recal3r.open_source(video) as source:
        print(source.description)
        for prediction in recon.stream(source):
            if prediction.T_world_camera is None:
                raise TypeError("an output that was asked for is there")
            x, y, z = prediction.T_world_camera[:3, 3]
            time = "" if prediction.timestamp is None else f" at {prediction.timestamp:.3f} s"
            print(f"{prediction.index}{time}: camera at {x:.3f} {y:.3f} {z:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
