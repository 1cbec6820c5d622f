// Overhead measures what the SDK adds to the C interface, in one job: blocks of allreduces by both, in turns, of
// COUNT elements of float32, by default of one. Rank 0 prints the medians of the blocks, in nanoseconds a call.
//
//	FARANDOLE_LIBRARY=.../libfarandole.so farandole run -np 2 overhead [COUNT]
package main

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../../..
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

#include "worker/farandole.h"

// A block of calls by C alone, of the library that the SDK has loaded from this path; gives the code of the last one.
static int block(const char* path, int calls, float* values, int64_t shape) {
  void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return FARANDOLE_NOT_FOUND;
  __typeof__(&farandole_allreduce_now) allreduce_now = (__typeof__(&farandole_allreduce_now))dlsym(library, "farandole_allreduce_now");
  int code = FARANDOLE_OK;
  for (int i = 0; i < calls && code == FARANDOLE_OK; ++i) {
    farandole_handle pending = 0;
    code = allreduce_now("value", values, values, &shape, 1, FARANDOLE_F32, FARANDOLE_MAX, 1, 1, 0, -1, &pending);
  }
  dlclose(library);
  return code;
}
*/
import "C"

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"farandole.dev/go/farandole"
)

// plan gives the number of blocks, and of the calls in one. Each side of a block takes some milliseconds; of the largest
// tensors, some tens.
func plan(count int) (blocks, calls int) {
	if count > 1<<20 {
		return 40, 2
	}
	return 200, max(10, 2000/(1+count/256))
}

func byC(path *C.char, calls int, value []float32) error {
	code := C.block(path, C.int(calls), (*C.float)(&value[0]), C.int64_t(len(value)))
	if code != C.FARANDOLE_OK {
		return fmt.Errorf("a block by C ended with code %d", code)
	}
	return nil
}

func byGo(ctx context.Context, job *farandole.Job, calls int, value []float32) error {
	for range calls {
		if err := farandole.AllreduceInPlace(ctx, job, value, farandole.Name("value"), farandole.Reduce(farandole.Max)); err != nil {
			return err
		}
	}
	return nil
}

// nanoseconds gives the time of one call in a block.
func nanoseconds(calls int, block func() error) (float64, error) {
	start := time.Now()
	err := block()
	return float64(time.Since(start).Nanoseconds()) / float64(calls), err
}

// values gives as many elements as the command line asks for.
func values() ([]float32, error) {
	if len(os.Args) < 2 {
		return []float32{1}, nil
	}
	count, err := strconv.Atoi(os.Args[1])
	if err != nil || count < 1 {
		return nil, fmt.Errorf("COUNT is %q; it must be a number from 1 on", os.Args[1])
	}
	return make([]float32, count), nil
}

func measure(ctx context.Context, job *farandole.Job) error {
	path := C.CString(os.Getenv("FARANDOLE_LIBRARY"))
	defer C.free(unsafe.Pointer(path))
	value, err := values()
	if err != nil {
		return err
	}
	blocks, calls := plan(len(value))
	contenders := []func() error{
		func() error { return byC(path, calls, value) },
		func() error { return byGo(ctx, job, calls, value) },
	}
	var times [2][]float64
	for block := range blocks {
		if err := farandole.Barrier(ctx, job); err != nil {
			return err
		}
		// Each goes first in half of the blocks.
		for turn := range contenders {
			contender := (block + turn) % len(contenders)
			taken, err := nanoseconds(calls, contenders[contender])
			if err != nil {
				return err
			}
			times[contender] = append(times[contender], taken)
		}
	}
	for _, each := range times {
		slices.Sort(each)
	}
	if c, sdk := times[0][blocks/2], times[1][blocks/2]; job.Rank() == 0 {
		fmt.Printf("C %.0f ns, Go %.0f ns, %.0f ns more\n", c, sdk, sdk-c)
	}
	return nil
}

func main() {
	if err := farandole.Run(context.Background(), farandole.Options{}, measure); err != nil {
		log.Fatal(err)
	}
}
