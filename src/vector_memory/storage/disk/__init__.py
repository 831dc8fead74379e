"""Files on disk, independent of their contents: writing, locking, and protection from being overwritten."""
