"""The stream: what it remembers, and what one frame does to it."""
