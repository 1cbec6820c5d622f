package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"farandole.dev/go/farandole"
)

// A pipe, whose reader waits until somebody writes into it.
const gaveUpPipe = "gave up"

func init() { programs["hesitating"] = hesitating }

// hesitating has worker 1 come when worker 0 has given up to wait for it; they then meet.
func hesitating(folder string) int {
	pipe := filepath.Join(folder, gaveUpPipe)
	var err error
	if os.Getenv("FARANDOLE_LAUNCH_INDEX") == "1" {
		_, err = os.ReadFile(pipe)
	} else if err = giveUp(); err == nil {
		err = os.WriteFile(pipe, []byte("now"), 0o600)
	}
	if err == nil {
		err = farandole.Run(context.Background(), farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
			return farandole.Barrier(ctx, job)
		})
	}
	if err != nil {
		fmt.Println(err)
		return endedByError
	}
	return 0
}

// giveUp waits in Init for another worker for as long as its context allows.
func giveUp() error {
	before := runtime.NumGoroutine()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := farandole.Init(cancelled, farandole.Options{}); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("after a cancelled context: %v", err)
	}
	short, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	start := time.Now()
	if _, err := farandole.Init(short, farandole.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("after a context that ended: %v", err)
	}
	if taken := time.Since(start); taken < 300*time.Millisecond || taken > 5*time.Second {
		return fmt.Errorf("Init returned after %v", taken)
	}
	// A goroutine counts until it has really gone, which a Gosched or two brings about.
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			break
		}
		runtime.Gosched()
	}
	if left := runtime.NumGoroutine(); left > before {
		return fmt.Errorf("%d goroutines, before there were %d", left, before)
	}
	return nil
}

func TestInitEndsWithItsContextAndMayBeCalledAgain(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(folder, gaveUpPipe), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, command(t, setup{2, 1, "auto"}, "hesitating", folder)).requireEnd(0)
}
