"""Locks on open files. Each goes with the descriptor, and so with the process, that has it."""


def lock(descriptor: int) -> None:
    """Lock a file, as soon as nobody else has it locked."""
    import fcntl  # noqa: PLC0415 - Windows has none, and its servers offer the other tools

    fcntl.flock(descriptor, fcntl.LOCK_EX)


def lock_if_free(descriptor: int) -> bool:
    """Lock a file if nobody else has it locked; False: somebody has."""
    import fcntl  # noqa: PLC0415 - as above

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
