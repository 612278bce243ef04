"""Tables as other formats: metadata that lets their readers read the files of a table where they lie."""
