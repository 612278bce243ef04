"""The page of `lsmlake serve`: its files, and the data of its views as JSON."""
