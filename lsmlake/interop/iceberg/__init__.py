"""Every table as an Iceberg table of format version 3: `mirror.publish` writes the metadata, and the files stay as they are."""
