"""The server over HTTP: who may come in, what they may do, and how it is run."""
