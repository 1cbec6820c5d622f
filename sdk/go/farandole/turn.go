package farandole

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Calls and bytes after which a goroutine yields: some 1,000 small calls, or 4 MiB. Both take about a millisecond.
const (
	turnBytes = 4 << 20
	callBytes = 4 << 10
)

// turn counts what a job's goroutines have given to the library since one of them yielded.
//
// A goroutine that makes one call into C after the other keeps its turn at Go's scheduler. After 10 ms the runtime's
// monitor thread takes the goroutine for one that hogs its processor. It then wakes each 20 us, takes the processor away
// in each call, and interrupts the library's threads: a loop of allreduces of 1 MiB took 10 % longer. Yielding begins a new turn.
type turn struct {
	bytes atomic.Int64
}

// count adds one call for so many elements, and yields where the turn has lasted long enough.
func count[T Number](t *turn, elements int) {
	var element T
	if t.bytes.Add(callBytes+int64(elements)*int64(unsafe.Sizeof(element))) >= turnBytes {
		t.bytes.Store(0)
		runtime.Gosched()
	}
}
