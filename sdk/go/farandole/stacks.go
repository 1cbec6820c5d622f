package farandole

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

const (
	// The runtime stops all goroutines while it writes their stacks: 5 ms for 1,000 of 12 calls each, 30 ms for 5,000.
	mostGoroutines = 1000
	mostStackBytes = 256 << 10
	// Goroutine 1 runs main.main; the library takes the stack with this number for the main thread's.
	mainGoroutine = 1
)

var registerStacks sync.Once

// offerStacks tells the library how `farandole diagnose` is to read this program's goroutines. Once; later calls do
// nothing.
func offerStacks() error {
	var err error
	registerStacks.Do(func() { err = errorOf(C.farandole_go_offer_stacks(mainGoroutine)) })
	return err
}

// farandoleGoStacks writes the stacks of all goroutines but its own, and returns how many bytes. The library calls it on
// a thread of its own.
//
//export farandoleGoStacks
func farandoleGoStacks(text *C.char, most C.int64_t) C.int64_t {
	if count := runtime.NumGoroutine(); count > mostGoroutines {
		return copyText(text, most, fmt.Sprintf("about: there are %d goroutines, and of more than %d none are read: the "+
			"program would stand still for too long\n", count, mostGoroutines))
	}
	all := make([]byte, mostStackBytes)
	all = all[:runtime.Stack(all, true)]
	return copyText(text, most, describeGoroutines(string(all)))
}

func copyText(text *C.char, most C.int64_t, written string) C.int64_t {
	return C.int64_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(most)), written))
}

// describeGoroutines turns the text of runtime.Stack into the form that the library reads, without the goroutine that
// has asked for it, which comes first.
func describeGoroutines(all string) string {
	var text strings.Builder
	text.WriteString("about: goroutines, as Go's runtime has them\n")
	for index, block := range strings.Split(all, "\n\n") {
		if index > 0 {
			describeGoroutine(&text, strings.Split(strings.TrimSpace(block), "\n"))
		}
	}
	return text.String()
}

// describeGoroutine writes one goroutine: "goroutine 7 [chan receive, 2 minutes]:", and two lines for each call.
func describeGoroutine(text *strings.Builder, lines []string) {
	number, state, found := strings.Cut(strings.TrimPrefix(lines[0], "goroutine "), " [")
	id, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return
	}
	state, _, _ = strings.Cut(state, "]")
	fmt.Fprintf(text, "Thread 0x%x [goroutine %d, %s] (most recent call first):\n", id, id, state)
	for at := 1; at+1 < len(lines); at += 2 {
		file, line := splitPlace(lines[at+1])
		fmt.Fprintf(text, "  File \"%s\", line %s in %s\n", file, line, functionOf(lines[at]))
	}
}

// functionOf gives the name in "main.(*T).load(0xc000012345, {...})" or "created by main.run in goroutine 1".
func functionOf(call string) string {
	if strings.HasPrefix(call, "created by ") {
		name, _, _ := strings.Cut(call, " in goroutine ")
		return name
	}
	if end := strings.LastIndexByte(call, '('); end > 0 && strings.HasSuffix(call, ")") {
		return call[:end]
	}
	return call
}

// splitPlace gives file and line of "\t/home/me/train.go:12 +0x1d".
func splitPlace(place string) (file, line string) {
	place, _, _ = strings.Cut(strings.TrimSpace(place), " +0x")
	if colon := strings.LastIndexByte(place, ':'); colon > 0 {
		return place[:colon], place[colon+1:]
	}
	return place, "0"
}
