"""Texts that wait on this machine until they are stored; written to the disk before they are acknowledged.

`folder` keeps each text in a file, `delivery` stores them one after the other, `places` says where they are.
"""

from vector_memory.outbox.delivery import SLOW, Delivery, DeliveryOutcome, T, Taken, Verdict, failure
from vector_memory.outbox.folder import Body, Outbox

__all__ = ["SLOW", "Body", "Delivery", "DeliveryOutcome", "Outbox", "T", "Taken", "Verdict", "failure"]
