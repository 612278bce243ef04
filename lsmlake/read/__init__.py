"""Reading a snapshot: plan, splits, rows; lookup by key; time travel."""
