package farandole

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Arena is memory for tensors that the ranks of one host reduce in place, several times as fast as others: an Allreduce in
// place of slices of it, at equal offsets on all ranks, is neither packed nor copied. It serves one epoch; while a
// submission is pending, peers write into its slices. It is not Go's memory: slices of it are good until Release.
type Arena struct {
	native  *C.farandole_arena
	memory  unsafe.Pointer
	bytes   int
	release sync.Once
}

// NewArena makes an arena of so many zero bytes on each rank, all of which call it with the same name and bytes, in the
// same order among their calls. Options: In. On all ranks alike, ErrMismatch: they ask for different numbers of bytes;
// ErrUnimplemented: the ranks are on several hosts, or exchange bulk data over the network; ErrQuota: a rank (named) has not
// so much memory left.
func NewArena(ctx context.Context, job *Job, name string, bytes int, given ...Option) (*Arena, error) {
	terms, err := options[uint8](job, 0, given)
	if err != nil {
		return nil, err
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	made := new(*C.farandole_arena)
	var pinner runtime.Pinner
	pinner.Pin(made)
	defer pinner.Unpin()
	start, err := blocking(ctx, "NewArena", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_arena_create(text, C.int64_t(bytes), terms.group, made, cancel)
	})
	if err != nil {
		return nil, err
	}
	return &Arena{native: *made, memory: *(*unsafe.Pointer)(unsafe.Pointer(&start)), bytes: bytes}, nil
}

// InArena gives count elements of an arena from a byte offset on, a multiple of the element's size. ErrMismatch: they do
// not lie in the arena.
func InArena[T Number](arena *Arena, offset, count int) ([]T, error) {
	size := sizeOf[T]()
	if offset < 0 || count < 0 || offset%size != 0 || offset > arena.bytes || count > (arena.bytes-offset)/size {
		return nil, mismatch("%d elements of %d bytes from byte %d on do not lie in an arena of %d bytes", count, size, offset, arena.bytes)
	}
	return unsafe.Slice((*T)(unsafe.Add(arena.memory, offset)), count), nil
}

// Release gives the memory back; no slice of it may be used any more. It does nothing after the first time.
func (a *Arena) Release() { a.release.Do(func() { C.farandole_go_arena_release(a.native) }) }
