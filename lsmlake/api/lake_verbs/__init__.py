"""The verbs of a lake, one file for each kind. `api.lake.Lake` has all of them."""
