"""Adds the server to the configuration of clients, and takes it out again."""
