package farandole

import (
	"errors"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"farandole.dev/go/internal/fault"
)

func TestShortFloatsSurviveAWideningForEveryPattern(t *testing.T) {
	for bits := range 1 << 16 {
		half, brain := Float16(bits), BFloat16(bits)
		if wide := half.Float32(); wide == wide && ToFloat16(wide) != half {
			t.Errorf("Float16 %#04x widens to %v and comes back as %#04x", bits, wide, ToFloat16(wide))
		}
		if wide := brain.Float32(); wide == wide && ToBFloat16(wide) != brain {
			t.Errorf("BFloat16 %#04x widens to %v and comes back as %#04x", bits, wide, ToBFloat16(wide))
		}
	}
	for bits := range 1 << 8 {
		e4m3, e5m2 := Float8E4M3(bits), Float8E5M2(bits)
		if wide := e4m3.Float32(); wide == wide && ToFloat8E4M3(wide) != e4m3 {
			t.Errorf("Float8E4M3 %#02x widens to %v and comes back as %#02x", bits, wide, ToFloat8E4M3(wide))
		}
		if wide := e5m2.Float32(); wide == wide && ToFloat8E5M2(wide) != e5m2 {
			t.Errorf("Float8E5M2 %#02x widens to %v and comes back as %#02x", bits, wide, ToFloat8E5M2(wide))
		}
	}
}

func TestShortFloatsAreRoundedToTheNearestAndTiesToEven(t *testing.T) {
	for _, each := range []struct{ given, half, brain float32 }{
		{1 + 1.0/2048, 1, 1}, {1 + 3.0/2048, 1 + 2.0/1024, 1}, {1 + 1.0/256, 1 + 4.0/1024, 1},
		{1 + 3.0/256, 1 + 12.0/1024, 1 + 2.0/128}, {65520, float32(math.Inf(1)), 65536},
	} {
		if found := ToFloat16(each.given).Float32(); found != each.half {
			t.Errorf("Float16 of %v is %v, not %v", each.given, found, each.half)
		}
		if found := ToBFloat16(each.given).Float32(); found != each.brain {
			t.Errorf("BFloat16 of %v is %v, not %v", each.given, found, each.brain)
		}
	}
}

func TestScatteredRowsAddUp(t *testing.T) {
	for size := 1; size <= 8; size++ {
		for rows := range 40 {
			sum := 0
			for position := range size {
				found := ScatteredRows(rows, position, size)
				if sum += found; found != rows/size && found != rows/size+1 {
					t.Errorf("position %d of %d gets %d of %d rows", position, size, found, rows)
				}
			}
			if sum != rows {
				t.Errorf("%d of %d rows go to %d positions", sum, rows, size)
			}
		}
	}
}

func TestAnErrorIsOfOneKindAndOfTheStandardLibrarysLike(t *testing.T) {
	kinds := []error{ErrMismatch, ErrNotRunning, ErrEpochEnded, ErrStalled, ErrUnavailable, ErrQuota, ErrDenied, ErrCorrupt,
		ErrInternal, ErrNotFound, ErrExists, ErrUnimplemented, ErrDismissed}
	for code := fault.Cancelled; code <= fault.Unauthenticated; code++ {
		found := 0
		for _, kind := range kinds {
			if errors.Is(fault.New(code, "a sentence"), kind) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("code %d is of %d kinds", code, found)
		}
	}
	if !errors.Is(fault.New(fault.NotFound, ""), fs.ErrNotExist) || !errors.Is(fault.New(fault.AlreadyExists, ""), fs.ErrExist) {
		t.Error("fs.ErrNotExist and fs.ErrExist are not found")
	}
}

func TestAMissingLibraryIsSaidWithAllPlaces(t *testing.T) {
	err := openLibrary([]string{"/nowhere/libfarandole.so", "/elsewhere/libfarandole.so"})
	if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "/nowhere/libfarandole.so, nor at /elsewhere/libfarandole.so") {
		t.Error(err)
	}
}

func TestVariablesReturnToWhatTheySaved(t *testing.T) {
	weights, step := []float32{1, 2}, map[string]int{"a": 1}
	memory := &weights[0]
	state := Variables(&weights, &step)
	if err := state.Save(); err != nil {
		t.Fatal(err)
	}
	weights[0], step["b"] = 7, 2
	if err := state.Restore(); err != nil {
		t.Fatal(err)
	}
	if weights[0] != 1 || len(step) != 1 || memory != &weights[0] {
		t.Errorf("restored %v and %v", weights, step)
	}
	weights = nil
	if err := state.Restore(); err != nil || len(weights) != 2 || weights[1] != 2 {
		t.Errorf("restored %v: %v", weights, err)
	}
	if err := Variables(&struct{ C chan int }{}).Save(); err == nil || !strings.Contains(err.Error(), "chan") && !strings.Contains(err.Error(), "exported") {
		t.Errorf("a channel is saved: %v", err)
	}
}

// A goroutine of one processor lets the other one run after a number of small calls, or of large ones. Now and then the
// runtime does otherwise: it takes the processor from a goroutine that it has seen for 10 ms, as on a busy machine, and
// gives every 61st turn to the one that has just yielded.
func TestALoopOfCallsYields(t *testing.T) {
	const rounds, mostExceptions = 100, 20
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for elements, calls := range map[int]int{0: turnBytes / callBytes, turnBytes / 8: 2, turnBytes: 1} {
		early, late := 0, 0
		for range rounds {
			var since turn
			var hasRun atomic.Bool
			go hasRun.Store(true)
			for range calls - 1 {
				count[float32](&since, elements)
			}
			if hasRun.Load() {
				early++
			}
			count[float32](&since, elements)
			if !hasRun.Load() {
				late++
			}
		}
		if early > mostExceptions {
			t.Errorf("calls for %d elements yielded before the last of %d, %d times of %d", elements, calls, early, rounds)
		}
		if late > mostExceptions {
			t.Errorf("%d calls for %d elements did not yield, %d times of %d", calls, elements, late, rounds)
		}
	}
}
