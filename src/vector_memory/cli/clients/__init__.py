"""Connects the clients of this server: adds it to their configuration, and takes it out again."""
