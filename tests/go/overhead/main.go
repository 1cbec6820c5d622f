// Overhead measures what the SDK adds to the C interface, in one job: blocks of allreduces of 4 bytes by both, in turns.
// Rank 0 prints the medians of the blocks, in nanoseconds a call.
//
//	FARANDOLE_LIBRARY=.../libfarandole.so farandole run -np 2 overhead
package main

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../../..
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

#include "worker/farandole.h"

// A block of calls by C alone, of the library that the SDK has loaded from this path; gives the code of the last one.
static int block(const char* path, int calls) {
  void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return FARANDOLE_NOT_FOUND;
  __typeof__(&farandole_allreduce_now) allreduce_now = (__typeof__(&farandole_allreduce_now))dlsym(library, "farandole_allreduce_now");
  float value = 1;
  const int64_t shape = 1;
  int code = FARANDOLE_OK;
  for (int i = 0; i < calls && code == FARANDOLE_OK; ++i) {
    farandole_handle pending = 0;
    code = allreduce_now("value", &value, &value, &shape, 1, FARANDOLE_F32, FARANDOLE_MAX, 1, 1, 0, -1, &pending);
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
	"time"
	"unsafe"

	"farandole.dev/go/farandole"
)

const (
	blocks = 200
	calls  = 2000
)

func byC(path *C.char) error {
	if code := C.block(path, calls); code != C.FARANDOLE_OK {
		return fmt.Errorf("a block by C ended with code %d", code)
	}
	return nil
}

func byGo(ctx context.Context, job *farandole.Job) error {
	value := []float32{1}
	for range calls {
		if err := farandole.AllreduceInPlace(ctx, job, value, farandole.Name("value"), farandole.Reduce(farandole.Max)); err != nil {
			return err
		}
	}
	return nil
}

// nanoseconds gives the time of one call in a block.
func nanoseconds(block func() error) (float64, error) {
	start := time.Now()
	err := block()
	return float64(time.Since(start).Nanoseconds()) / calls, err
}

func measure(ctx context.Context, job *farandole.Job) error {
	path := C.CString(os.Getenv("FARANDOLE_LIBRARY"))
	defer C.free(unsafe.Pointer(path))
	contenders := []func() error{func() error { return byC(path) }, func() error { return byGo(ctx, job) }}
	var times [2][]float64
	for block := range blocks {
		if err := farandole.Barrier(ctx, job); err != nil {
			return err
		}
		// Each goes first in half of the blocks.
		for turn := range contenders {
			contender := (block + turn) % len(contenders)
			taken, err := nanoseconds(contenders[contender])
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
