"""Memories of sessions: storing, reading, changes, exports."""
