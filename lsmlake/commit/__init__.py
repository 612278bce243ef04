"""Publishing snapshots: rebase, invariants, the conditional create; and snapshot expiry, which commits trigger."""
