"""Tables of other formats, as values that `maintain.adopt` makes a table of. One file per format, and what they share."""
