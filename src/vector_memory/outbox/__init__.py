"""Texts that wait on this machine until they are stored; written to the disk before they are acknowledged.

`folder` keeps each text in a file and says where these files are; `delivery` stores them one after the other.
"""

from vector_memory.outbox.delivery import SLOW, Delivery, DeliveryOutcome, T, Verdict, failure
from vector_memory.outbox.folder import Body, Outbox

__all__ = ["SLOW", "Body", "Delivery", "DeliveryOutcome", "Outbox", "T", "Verdict", "failure"]
