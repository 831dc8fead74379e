"""Files on a disk, whatever is in them: how they are written, locked, and kept from being overwritten."""
