"""The CUT3R network. Knows of no rule and no stream."""
