"""Notification of waiting browsers about changes, limited to a rate."""

import asyncio


class ChangeNotifier:
    """One change after the other for any number of waiting tasks; several within `pause` (s) are one."""

    def __init__(self, *, pause: float = 0.5) -> None:
        self._pause = pause
        self._event = asyncio.Event()
        self.closed = False
        """Whether there will be no more."""

    def notify(self) -> None:
        """Something has changed."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for the next change; False if there was none within `seconds`."""
        event = self._event
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        if self.closed:
            return True
        await asyncio.sleep(self._pause)
        if self._event is event:  # the first that wakes opens the next round
            self._event = asyncio.Event()
        return True

    def close(self) -> None:
        """There will be no more."""
        self.closed = True
        self._event.set()
