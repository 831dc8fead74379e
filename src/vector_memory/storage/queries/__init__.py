"""SQL for every engine, by subject: each function beside its statement. `storage.connection` says how it is written."""
