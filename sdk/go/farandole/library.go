package farandole

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../include -I${SRCDIR}/../../..
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"farandole.dev/go/internal/fault"
)

var (
	loadOnce sync.Once
	loadErr  error
)

// load opens the library, once a process.
func load() error {
	loadOnce.Do(func() { loadErr = openLibrary(candidates()) })
	return loadErr
}

// openLibrary opens the first of these paths that exists. The error names all of them.
func openLibrary(paths []string) error {
	var reasons []string
	for _, path := range paths {
		if _, err := os.Stat(path); strings.Contains(path, "/") && err != nil {
			reasons = append(reasons, path)
			continue
		}
		reason := open(path)
		if reason == "" {
			return checkVersion(path)
		}
		if strings.Contains(path, "/") {
			return fault.New(fault.FailedPrecondition, fmt.Sprintf("the worker library %s cannot be loaded: %s", path, reason))
		}
		reasons = append(reasons, fmt.Sprintf("the system's folders of libraries (%s)", reason))
	}
	return fault.New(fault.FailedPrecondition, fmt.Sprintf("there is no worker library at %s; set %s to the path of %s, "+
		"put the `farandole` of its installation into PATH, or install it (pip install farandole's wheel, or make install)",
		strings.Join(reasons, ", nor at "), libraryVariable, libraryName))
}

func open(path string) string {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	bind := C.int(0)
	if deepbind() {
		bind = 1
	}
	return takeString(C.farandole_go_load(text, bind))
}

func checkVersion(path string) error {
	found, wanted := C.farandole_go_abi_version(), C.farandole_go_wanted_abi_version()
	if found == wanted {
		return nil
	}
	return fault.New(fault.FailedPrecondition, fmt.Sprintf("the worker library %s has ABI version %d, but this program was "+
		"built for %d; install the version of Farandole that the program was built with, or build it anew", path, found, wanted))
}

// takeString copies a string of C's and frees it; "" for NULL.
func takeString(text *C.char) string {
	if text == nil {
		return ""
	}
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text)
}

// errorOf gives the error of an outcome; nil where there is none. Takes its sentence.
func errorOf(outcome C.farandole_go_outcome) error {
	if outcome.code == C.FARANDOLE_OK {
		return nil
	}
	return fault.New(fault.Code(outcome.code), takeString(outcome.sentence))
}

// number gives the value of an outcome that cannot fail while the worker runs; -1 if it does.
func number(outcome C.farandole_go_outcome) int {
	if errorOf(outcome) != nil {
		return -1
	}
	return int(outcome.value)
}

// blocking makes a call that looks at a word and gives up when the context has ended; the error is the context's then.
// If that has ended already, there is no call.
func blocking(ctx context.Context, what string, call func(cancel *C.int32_t) C.farandole_go_outcome) (int64, error) {
	if ctx.Err() != nil {
		return 0, given(ctx, what)
	}
	return interruptible(ctx, what, call)
}

// interruptible is as blocking, and makes the call in any case.
func interruptible(ctx context.Context, what string, call func(cancel *C.int32_t) C.farandole_go_outcome) (int64, error) {
	word := (*C.int32_t)(C.calloc(1, C.sizeof_int32_t))
	defer C.free(unsafe.Pointer(word))
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		atomic.StoreInt32((*int32)(unsafe.Pointer(word)), 1)
		close(fired)
	})
	outcome := call(word)
	wasCancelled := !stop()
	if wasCancelled {
		<-fired
	}
	value, err := int64(outcome.value), errorOf(outcome)
	if err != nil && wasCancelled {
		return value, given(ctx, what)
	}
	return value, err
}
