package farandole

import (
	"runtime"
	"strings"
	"testing"
)

const stacksOfRuntime = `goroutine 34 [running, locked to thread]:
farandole.dev/go/farandole.farandoleGoStacks(0x7f0000, 0x40000)
	/sdk/stacks.go:48 +0x5d

goroutine 1 [chan receive, 2 minutes]:
main.(*Loader[...]).next(0xc000012345, {0x1, 0x2})
	/home/a b/train.go:12 +0x1d
main.main()
	/home/a b/train.go:40 +0x85

goroutine 7 [select (no cases)]:
main.serve(...)
	/home/a b/serve.go:9
created by main.main in goroutine 1
	/home/a b/train.go:38 +0x2a
`

func TestGoroutinesHaveTheFormThatTheLibraryReads(t *testing.T) {
	wanted := `about: goroutines, as Go's runtime has them
Thread 0x1 [goroutine 1, chan receive, 2 minutes] (most recent call first):
  File "/home/a b/train.go", line 12 in main.(*Loader[...]).next
  File "/home/a b/train.go", line 40 in main.main
Thread 0x7 [goroutine 7, select (no cases)] (most recent call first):
  File "/home/a b/serve.go", line 9 in main.serve
  File "/home/a b/train.go", line 38 in created by main.main
`
	if found := describeGoroutines(stacksOfRuntime); found != wanted {
		t.Fatalf("it is\n%s, not\n%s", found, wanted)
	}
}

func TestAStackThatIsCutIsReadAsFarAsItGoes(t *testing.T) {
	for end := range stacksOfRuntime {
		describeGoroutines(stacksOfRuntime[:end])
	}
}

func TestAGoroutineThatWaitsIsShownByTheRuntime(t *testing.T) {
	gate, over := make(chan struct{}), make(chan struct{})
	go waitsForTheTest(gate, over)
	<-gate
	all := make([]byte, mostStackBytes)
	for {
		text := describeGoroutines(string(all[:runtime.Stack(all, true)]))
		if strings.Contains(text, "in farandole.dev/go/farandole.waitsForTheTest\n") && strings.Contains(text, ", chan receive]") {
			break
		}
		runtime.Gosched()
	}
	close(over)
}

func waitsForTheTest(gate, over chan struct{}) {
	close(gate)
	<-over
}
