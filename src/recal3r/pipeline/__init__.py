"""From a source through a reconstructor into sinks: one frame at a time, and on again where it was cut off."""
