"""A camera, or a stream from the network, in; a page to watch it in the browser, and its trajectory, out.

Run it:  python examples/03_live.py WEIGHTS CAMERA TRAJECTORY      (say, tiny, 0 or rtsp://..., and path.txt)

Each time the network is ready it gets the newest frame; those that came meanwhile are dropped, and counted. Ctrl-C ends
it. Cameras need recal3r[video], the page recal3r[viewer].
"""

from __future__ import annotations

import sys
from contextlib import suppress

import recal3r
from recal3r.sinks import Tee, TumSink
from recal3r.sources.live import Live
from recal3r.viewer import ViewerSink


def main(weights: str, camera: str, trajectory: str) -> None:
    model = recal3r.load_model(weights)
    page = ViewerSink(port=0)
    recon = recal3r.Reconstructor(model, rule="recal3r", outputs=[*page.needs, "reliability"])
    with recal3r.open_source(camera) as source, Tee(page, TumSink(trajectory)) as sinks, suppress(KeyboardInterrupt):
        print(f"{source.description}; watch it at {page.url}", flush=True)
        for frame in source:
            prediction = recon.push(frame)
            sinks.write(prediction, frame.image)
        if isinstance(source, Live):
            print(f"{recon.session.places[0].frames} frames, {source.counters.dropped} dropped to keep up")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
