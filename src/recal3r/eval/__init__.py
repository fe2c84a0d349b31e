"""Numbers: what a reconstruction got wrong, and how sure one can be of it."""
