"""The verbs of a table, one file for each flow. `api.table.Table` has all of them."""
