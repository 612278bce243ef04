"""Publishing one snapshot: requests, requirements, rebase, invariants, the conditional create."""
