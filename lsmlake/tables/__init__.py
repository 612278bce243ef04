"""The metadata of a table as stored: schemas, snapshots, manifests, tags, branches, consumers;
and `Version`, a table at one snapshot."""
