"""A limit that senders share, so that no sender can take what the others need."""

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, InitVar, dataclass

from collector.errors import Overloaded

_IPV6_SITE = 64  # the bits of an address that belong to one subscriber


class LimitReached(Overloaded):
    """The sender's share of a limit is used up. `reason` names the limit in metrics."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def address_key(address: str | None) -> str:
    """The key of a sender by its address. For IPv6 it is the network, since a subscriber has a whole network of
    addresses.
    """
    try:
        parsed = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return f"address {address or 'unknown'}"
    if parsed.version == 6 and parsed.ipv4_mapped is None and not parsed.is_loopback:
        return f"address {ipaddress.ip_network((parsed, _IPV6_SITE), strict=False)}"
    return f"address {getattr(parsed, 'ipv4_mapped', None) or parsed}"


@dataclass(eq=False, repr=False)
class FairLimit:
    """A limit of `limit` units. A sender may take more as long as it holds no more than are left free.

    So a single sender may hold half, two a third each, and a new one always finds some free: the dynamic thresholds of
    Choudhury and Hahne (1998) with a factor of 1. Every sender may hold `floor` units if they are free, however small
    the limit. `guaranteed` fractions are reserved for named senders, in addition to their part of the rest. One event
    loop; no locks. `on_change` is given each change, for a gauge.
    """

    limit: int
    reason: str
    _: KW_ONLY
    floor: int = 1
    guaranteed: InitVar[Mapping[str, float] | None] = None
    on_change: Callable[[int], object] | None = None

    def __post_init__(self, guaranteed: Mapping[str, float] | None) -> None:
        self.total = 0
        self._guaranteed = {sender: int(share * self.limit) for sender, share in (guaranteed or {}).items()}
        self._pool = self.limit - sum(self._guaranteed.values())
        self._pool_used = 0
        self._units: dict[str, int] = {}
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    def take(self, sender: str, amount: int) -> None:
        """Take `amount` units for a sender, at once.

        Raises:
            LimitReached: the sender would hold more than its share.
        """
        if not self._fits(sender, amount):
            whose = "for one sender" if self.total + amount <= self.limit else "at once"
            raise LimitReached(f"more than the limit on {self.reason} allows {whose}", self.reason)
        self.add(sender, amount)

    async def wait(self, sender: str, amount: int) -> None:
        """Take `amount` units as soon as they fit; requests of one sender in the order of arrival."""
        if self._fits(sender, amount):
            self.add(sender, amount)
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sender, amount, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.give_back(sender, amount)  # admitted at the very moment of giving up
            else:
                self._waiting.remove((sender, amount, admitted))
            raise

    def add(self, sender: str, amount: int) -> None:
        """Add units that a sender holds already, whether they fit or not: others have to wait for them."""
        units = self._units.get(sender, 0)
        guaranteed = self._guaranteed.get(sender, 0)
        self._pool_used += max(0, units + amount - guaranteed) - max(0, units - guaranteed)
        if units + amount:
            self._units[sender] = units + amount
        else:
            self._units.pop(sender, None)  # senders that hold nothing take no memory
        self.total += amount
        if self.on_change is not None:
            self.on_change(amount)

    def give_back(self, sender: str, amount: int) -> None:
        """Return units; waiting senders may get them."""
        self.add(sender, -amount)
        if self._waiting:
            self._admit_waiting()

    def _fits(self, sender: str, amount: int) -> bool:
        beyond = self._units.get(sender, 0) - self._guaranteed.get(sender, 0)
        before, after = max(0, beyond), max(0, beyond + amount)  # of the pool
        if after == before:
            return True
        free = self._pool - self._pool_used
        return after - before <= free and after <= max(free, self.floor)

    def _admit_waiting(self) -> None:
        """Admit every waiting sender that fits. A sender that has used its share does not hold up others."""
        still: list[tuple[str, int, asyncio.Future[None]]] = []
        for sender, amount, admitted in self._waiting:
            if not admitted.done() and self._fits(sender, amount):
                self.add(sender, amount)  # now, not when its task wakes, so that no other task gets the units
                admitted.set_result(None)
            else:
                still.append((sender, amount, admitted))
        self._waiting = still


class Holding(AbstractContextManager["Holding"]):
    """A place and bytes of one sender, until `release`; a context manager that releases.

    Example: `with Holding(sender, places, pending) as holding: holding.take_bytes(len(piece))`
    """

    __slots__ = ("_bytes", "_pending", "_places", "_sender", "received")

    def __init__(self, sender: str, places: FairLimit, pending: FairLimit) -> None:
        """Take a place.

        Raises:
            LimitReached: the sender has used its share of the places.
        """
        places.take(sender, 1)
        self._sender = sender
        self._places = places
        self._pending = pending
        self._bytes = 0
        self.received = 0
        """Bytes on the wire, before decompression; 0 if unknown."""

    def take_bytes(self, amount: int) -> None:
        """Take bytes as they arrive.

        Raises:
            LimitReached: the sender has used its share of the bytes.
        """
        self._pending.take(self._sender, amount)
        self._bytes += amount

    async def wait_for_bytes(self, amount: int) -> None:
        """Take bytes as soon as they fit."""
        await self._pending.wait(self._sender, amount)
        self._bytes += amount

    def add_bytes(self, amount: int) -> None:
        """Add bytes that are in memory already."""
        self._pending.add(self._sender, amount)
        self._bytes += amount

    def give_back_bytes(self, amount: int) -> None:
        """Return bytes that are no longer in memory."""
        self._bytes -= amount
        self._pending.give_back(self._sender, amount)

    def __exit__(self, *_error: object) -> None:
        amount, self._bytes = self._bytes, 0
        if amount:
            self._pending.give_back(self._sender, amount)
        self._places.give_back(self._sender, 1)
