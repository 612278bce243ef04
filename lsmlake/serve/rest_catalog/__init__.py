"""The REST catalog of Iceberg over a lake: namespaces are databases; tables are published when they are loaded."""
