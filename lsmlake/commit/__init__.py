"""Publishing snapshots: rebase, invariants, the conditional create; and the expiry of old snapshots, which commits run."""
