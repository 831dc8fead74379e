"""A page over a live memory, for a person at this machine.

`guard.py` lets one browser in, `api.py` translates requests to calls of the facade, `web/` is the page.
"""
