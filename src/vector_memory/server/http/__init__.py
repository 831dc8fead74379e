"""The server over HTTP: authentication, permissions, and running it."""
