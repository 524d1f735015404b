"""What drivers of LiveKit by voice share: a microphone that gives silence, and a loudspeaker that stops where the user cuts in."""

from __future__ import annotations

import asyncio
import time

from livekit import rtc
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities

RATE = 24_000
CUT_OFF = "A double kayak costs"


def silence(seconds: float) -> rtc.AudioFrame:
    """What stands for speech."""
    samples = int(RATE * seconds)
    return rtc.AudioFrame(b"\x00\x00" * samples, RATE, 1, samples)


class Microphone(AudioInput):
    """Gives silence, as fast as it is heard."""

    def __init__(self) -> None:
        super().__init__(label="microphone")

    async def __anext__(self) -> rtc.AudioFrame:
        await asyncio.sleep(0.05)
        return silence(0.05)


class Loudspeaker(AudioOutput):
    """Plays in real time, and stops where the user cuts in."""

    def __init__(self) -> None:
        super().__init__(label="loudspeaker", capabilities=AudioOutputCapabilities(pause=False), sample_rate=RATE)
        self.begun, self.done = asyncio.Event(), asyncio.Event()
        self._seconds, self._started, self._playing = 0.0, 0.0, None

    async def capture_frame(self, frame) -> None:
        await super().capture_frame(frame)
        if not self._seconds:
            self._started = time.time()
            self.on_playback_started(created_at=self._started)
            self.begun.set()
        self._seconds += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._seconds:
            self._playing = asyncio.create_task(self._play())

    async def _play(self) -> None:
        await asyncio.sleep(max(0.0, self._started + self._seconds - time.time()))
        self._finish(cut_off=False)

    def clear_buffer(self) -> None:
        if self._seconds:
            if self._playing:
                self._playing.cancel()
            self._finish(cut_off=True)

    def _finish(self, *, cut_off: bool) -> None:
        position = min(self._seconds, time.time() - self._started)
        self._seconds = 0.0
        heard = CUT_OFF if cut_off else None
        self.on_playback_finished(playback_position=position, interrupted=cut_off, synchronized_transcript=heard)
        self.done.set()
