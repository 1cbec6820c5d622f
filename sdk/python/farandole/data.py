"""Data loaders that read ahead in a thread, for any framework.

class AsyncLoader(AsyncDataLoaderMixin, Loader): ...   # Loader is a BaseDataLoader

The time that the loop waits for a batch is the section "data" of the program (docs/diagnosis.md).
"""

import queue
import sys
import threading
from typing import Any, Callable, Iterable, Iterator, Optional

from ._sections import section

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]


class BaseDataLoader:
    """Batches in a loop. To be derived from: __len__ and _iterate."""

    def __len__(self) -> int:
        """Number of batches of a pass."""
        raise NotImplementedError

    def _iterate(self) -> Iterable[Any]:
        """The batches of one pass."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        for batch in section("data").each(self._iterate()):
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        """The loop's value for a batch, made in the thread that asks for it."""
        return batch


class _End:
    """Follows the last batch of a pass; `error` has ended it."""

    def __init__(self, error: Optional[BaseException] = None) -> None:
        self.error = error


def _gpu_of_thread() -> Callable[[], None]:
    """A function by which another thread comes to use the CUDA GPU that this one does; new threads use the first."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return lambda: None
    index = torch.cuda.current_device()
    return lambda: torch.cuda.set_device(index)


class _Pass:
    """One pass of a loader in a thread of its own, at most `ahead` batches ahead of the consumer."""

    def __init__(self, batches: Iterable[Any], ahead: int) -> None:
        self._batches = batches
        self._queue: "queue.Queue[Any]" = queue.Queue()
        self._room = threading.Semaphore(ahead)
        self._is_closed = False
        # Raised for a consumer that lacks batches since this pass was closed.
        self._loss: Optional[BaseException] = None
        self._take_gpu = _gpu_of_thread()
        self._thread = threading.Thread(target=self._read, name="farandole-data", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        end = _End()
        try:
            self._take_gpu()
            for batch in self._batches:
                self._room.acquire()
                if self._is_closed:
                    end = _End(self._loss)
                    return
                self._queue.put(batch)
        except BaseException as error:  # pylint: disable=broad-except; raised where the batches are taken
            end = _End(error)
        finally:
            self._queue.put(end)

    def __iter__(self) -> Iterator[Any]:
        while True:
            batch = self._queue.get()
            if isinstance(batch, _End):
                if batch.error is not None:
                    raise batch.error
                return
            if self._loss is not None:
                raise self._loss
            self._room.release()
            yield batch

    def close(self, loss: Optional[BaseException] = None) -> None:
        """Ends the thread: as soon as the loader gives it the batch that it reads. A consumer that takes the pass further
        gets what is read; with `loss`, that error, unless it has all batches already."""
        self._loss = loss
        self._is_closed = True
        self._room.release()
        self._thread.join()


class AsyncDataLoaderMixin:
    """Goes before a BaseDataLoader: batches are read in a thread, ahead of the loop that takes them.

    The thread uses the CUDA GPU of the thread that begins the pass, and its default stream. A pass is read while it is
    taken; one that is left early ends with the next one, or with close_async_loader(). A loop that goes on with a pass
    although a newer one has begun gets a RuntimeError, as in zip(loader, loader): the loader has one pass at a time. The
    loop raises the exceptions of _iterate.
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        """`async_loader_queue_size`: most batches that are read ahead; 0: none, and no thread. `debug_data_loader`: says
        on stdout when a pass begins and ends. The other arguments are the loader's own."""
        if async_loader_queue_size < 0:
            raise ValueError(f"async_loader_queue_size must be at least 0, not {async_loader_queue_size}")
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._pass: Optional[_Pass] = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread, if one runs. Another pass may follow."""
        self._close(None)

    def _close(self, loss: Optional[BaseException]) -> None:
        if self._pass is not None:
            self._pass.close(loss)
            self._pass = None

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size == 0:
            yield from super().__iter__()
            return
        self._close(
            RuntimeError(
                "another pass of this loader has begun, which has ended this one before its last batch; begin a pass when "
                "the one before is over, or make a loader for each"
            )
        )
        self._pass = running = _Pass(self._iterate(), self.async_loader_queue_size)
        self._say("a pass begins")
        for batch in section("data").each(running):
            yield self._process_batch(batch)
        self._say("a pass is over")

    def _say(self, what: str) -> None:
        if self.debug_data_loader:
            print(f"{type(self).__name__}: {what}", flush=True)
