"""Which addresses can only be reached from this machine."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
