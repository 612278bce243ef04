"""`lsmlake serve`: the tables of a warehouse over HTTP and Arrow Flight, for other engines and for people."""
