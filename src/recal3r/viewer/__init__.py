"""A page in the browser to look at a run, finished or not: `recal3r view OUT`, or `ViewerSink` beside a stream."""

from importlib import import_module

from recal3r.errors import OutputError

try:
    import_module("viser")
except ImportError as missing:
    raise OutputError(f"The viewer needs viser, which does not load ({missing}); install recal3r[viewer].") from missing

from recal3r.viewer.frames import FolderFrames
from recal3r.viewer.sink import ViewerSink
from recal3r.viewer.viewer import Viewer

__all__ = ["FolderFrames", "Viewer", "ViewerSink"]
