package farandole

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
)

const (
	// How long a wait inside the library lasts, in milliseconds, before Go looks at the context.
	surfaceMs = 20
	forever   = -1
)

// Handle is an operation under way. Wait for it by Wait, or in a select by Done and then Err. Any goroutine may, and as
// often as it wants. A handle that nobody waits for costs nothing: the job lets go of its memory when it is complete.
type Handle struct {
	job *Job
	// The library's number of it, and those of the further submissions of a grouped call.
	id   C.farandole_handle
	rest []C.farandole_handle
	// Fetches the result of an operation that has one, before the library forgets it.
	collect func(id C.farandole_handle) error
	// Of job.pending.
	previous, next *Handle

	mu     sync.Mutex
	pinner runtime.Pinner
	isDone bool
	err    error
	done   chan struct{}
}

// list is a ring of handles around a head that is none.
type list struct{ head Handle }

func (l *list) init() { l.head.previous, l.head.next = &l.head, &l.head }

func (l *list) front() *Handle {
	if l.head.next == &l.head {
		return nil
	}
	return l.head.next
}

func (l *list) pushBack(handle *Handle) {
	last := l.head.previous
	handle.previous, handle.next = last, &l.head
	last.next, l.head.previous = handle, handle
}

func (l *list) remove(handle *Handle) {
	if handle.next == nil {
		return
	}
	handle.previous.next, handle.next.previous = handle.next, handle.previous
	handle.previous, handle.next = nil, nil
}

// add keeps a handle, with the memory that the library has borrowed, until it is complete.
func (j *Job) add(handle *Handle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending.pushBack(handle)
}

// sweep looks at the handle that has waited longest to be looked at. Called at each submission, it keeps the number of
// handles that nobody waits for at that of those that are pending.
func (j *Job) sweep() {
	if j.check() != nil {
		return
	}
	j.mu.Lock()
	oldest := j.pending.front()
	if oldest != nil {
		j.pending.remove(oldest)
		j.pending.pushBack(oldest)
	}
	j.mu.Unlock()
	if oldest != nil {
		oldest.IsDone()
	}
}

// dropPending ends all handles of an epoch that is over: the library has forgotten them.
func (j *Job) dropPending(why string) {
	for {
		j.mu.Lock()
		handle := j.pending.front()
		j.mu.Unlock()
		if handle == nil {
			return
		}
		handle.settle(over(why))
	}
}

// Wait returns when the operation is complete, or the context has ended. Its error is that of the operation, or the
// context's: the operation then goes on, and its memory stays the library's until it is complete or the epoch ends.
//
// ErrMismatch: this call was wrong, or ranks disagree about it (the sentence names two ranks and both values).
// ErrEpochEnded: a worker has died or left.
func (h *Handle) Wait(ctx context.Context) error {
	timeout := C.int64_t(surfaceMs)
	if ctx.Done() == nil {
		timeout = forever
	}
	for {
		h.mu.Lock()
		isDone, err := h.isDone, h.err
		h.mu.Unlock()
		if isDone {
			return err
		}
		if ctx.Err() != nil {
			return given(ctx, "a wait")
		}
		if h.await(timeout) {
			continue
		}
	}
}

// await waits for at most so many milliseconds and tells whether the handle is complete.
func (h *Handle) await(timeoutMs C.int64_t) bool {
	outcome := C.farandole_go_wait(h.id, timeoutMs)
	if outcome.code == C.FARANDOLE_STILL_PENDING {
		return false
	}
	err := errorOf(outcome)
	for _, id := range h.rest {
		outcome := C.farandole_go_wait(id, timeoutMs)
		if outcome.code == C.FARANDOLE_STILL_PENDING {
			return false
		}
		if further := errorOf(outcome); err == nil {
			err = further
		}
	}
	h.settle(err)
	return true
}

// IsDone tells, without waiting, whether the operation is complete, well or not.
func (h *Handle) IsDone() bool {
	h.mu.Lock()
	isDone := h.isDone
	h.mu.Unlock()
	return isDone || h.await(0)
}

// settle ends a handle with an error, or none: the first time counts.
func (h *Handle) settle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isDone {
		return
	}
	if err == nil && h.collect != nil {
		err = h.collect(h.id)
	}
	C.farandole_go_release(h.id)
	for _, id := range h.rest {
		C.farandole_go_release(id)
	}
	h.isDone, h.err, h.collect = true, err, nil
	h.pinner.Unpin()
	if h.done != nil {
		close(h.done)
	}
	h.job.mu.Lock()
	h.job.pending.remove(h)
	h.job.mu.Unlock()
}

// Err gives the operation's error when it is complete: nil where it went well. While it is pending, Err gives nil, too;
// ask Done or IsDone first.
func (h *Handle) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Done gives a channel that is closed when the operation is complete, well or not; Err then has its error. One goroutine
// waits for all handles of the job whose channel somebody has asked for, and ends with the last of them. Wait is faster, since
// it needs no other goroutine.
func (h *Handle) Done() <-chan struct{} {
	h.mu.Lock()
	if h.done != nil {
		defer h.mu.Unlock()
		return h.done
	}
	done := make(chan struct{})
	h.done = done
	if h.isDone {
		close(done)
		h.mu.Unlock()
		return done
	}
	h.mu.Unlock()
	h.job.watch(h)
	// The watcher may have counted this completion before it knew of the handle.
	h.IsDone()
	return done
}

func (j *Job) watch(handle *Handle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watched = append(j.watched, handle)
	if !j.watching {
		j.watching = true
		j.watchers.Add(1)
		go j.awaitWatched()
	}
}

// awaitWatched waits for the watched handles until there are none.
func (j *Job) awaitWatched() {
	defer j.watchers.Done()
	var mine []*Handle
	// No count, so that the first wait returns at once with the present one.
	seen := ^C.uint64_t(0)
	for {
		j.mu.Lock()
		mine = append(mine, j.watched...)
		j.watched = j.watched[:0]
		if len(mine) == 0 {
			j.watching = false
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		seen = C.farandole_go_wait_for_completion(seen, surfaceMs)
		left := mine[:0]
		for _, handle := range mine {
			if !handle.IsDone() {
				left = append(left, handle)
			}
		}
		clear(mine[len(left):])
		mine = left
	}
}
