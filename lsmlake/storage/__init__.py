"""Names, bytes, clocks and ids: every side effect. One storage each for local files, object stores and memory."""
