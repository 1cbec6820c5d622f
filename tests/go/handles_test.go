package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"farandole.dev/go/farandole"
)

var handleChecks = []check{
	{"handles are waited for in a select, in any order", func(r *rank) {
		first, second := []float32{1}, []float32{2}
		// All ranks submit the second before the first that they wait for.
		two, err := farandole.AllreduceInPlaceAsync(r.job, second, farandole.Name("second"), farandole.Reduce(farandole.Max))
		r.require(err)
		one, err := farandole.AllreduceInPlaceAsync(r.job, first, farandole.Name("first"), farandole.Reduce(farandole.Max))
		r.require(err)
		for pending := 2; pending > 0; pending-- {
			select {
			case <-one.Done():
				r.require(one.Err())
				one = two
			case <-two.Done():
				r.require(two.Err())
				two = one
			}
		}
		requireThat(one.IsDone() && two.IsDone(), "a closed channel's handle is not done")
	}},
	{"a channel closes although another handle's operation does not come", func(r *rank) {
		if r.job.Size() == 1 {
			return
		}
		late := &farandole.Handle{}
		var err error
		if r.job.Rank() == 0 {
			late, err = farandole.BarrierAsync(r.job, farandole.Name("late"))
			r.require(err)
			_ = late.Done()
		}
		soon, err := farandole.BarrierAsync(r.job, farandole.Name("soon"))
		r.require(err)
		<-soon.Done()
		r.require(soon.Err())
		if r.job.Rank() == 0 {
			requireThat(!late.IsDone(), "the late one is done")
		}
		r.require(farandole.Barrier(r.ctx, r.job, farandole.Name("between")))
		if r.job.Rank() != 0 {
			late, err = farandole.BarrierAsync(r.job, farandole.Name("late"))
			r.require(err)
		}
		<-late.Done()
		r.require(late.Err())
	}},
	{"memory that nobody waits for is kept until the library gives it back", func(r *rank) {
		for i := range 100 {
			data := make([]float64, 4096)
			for k := range data {
				data[k] = float64(i)
			}
			_, err := farandole.AllreduceInPlaceAsync(r.job, data, farandole.Name(fmt.Sprint("dropped/", i)), farandole.Reduce(farandole.Max))
			r.require(err)
			if i%10 == 0 {
				runtime.GC()
			}
			canary := make([]float64, 4096)
			for k := range canary {
				requireThat(canary[k] == 0, "somebody wrote into new memory")
			}
		}
		r.require(farandole.Barrier(r.ctx, r.job))
	}},
	{"a context ends a wait, and the operation goes on", func(r *rank) {
		if r.job.Size() == 1 {
			return
		}
		data := []int64{1}
		reduce, name := farandole.Reduce(farandole.Sum), farandole.Name("abandoned")
		if r.job.Rank() == 0 {
			short, cancel := context.WithTimeout(r.ctx, 30*time.Millisecond)
			defer cancel()
			err := farandole.AllreduceInPlace(short, r.job, data, name, reduce)
			requireThat(errors.Is(err, context.DeadlineExceeded), "the error is %v", err)
			cancelled, cancelNow := context.WithCancelCause(r.ctx)
			cancelNow(errors.New("the user has gone"))
			handle, err := farandole.BarrierAsync(r.job, farandole.Name("abandoned barrier"))
			r.require(err)
			err = handle.Wait(cancelled)
			requireThat(err != nil && !handle.IsDone(), "the wait ended with %v", err)
			r.require(farandole.Barrier(r.ctx, r.job, farandole.Name("the others may go on")))
			r.require(handle.Wait(r.ctx))
		} else {
			r.require(farandole.Barrier(r.ctx, r.job, farandole.Name("the others may go on")))
			r.require(farandole.Barrier(r.ctx, r.job, farandole.Name("abandoned barrier")))
			r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, name, reduce))
			requireEqual(data, []int64{int64(r.job.Size())}, "the sum")
		}
		r.require(farandole.Barrier(r.ctx, r.job))
	}},
	{"blocking calls end with their context", func(r *rank) {
		if r.job.Size() == 1 {
			return
		}
		ended, cancel := context.WithCancel(r.ctx)
		cancel()
		_, err := r.job.AddProcessSet(ended, 0)
		requireThat(errors.Is(err, context.Canceled), "the error is %v", err)
	}},
	{"many goroutines work at once", func(r *rank) {
		var all sync.WaitGroup
		problems := make(chan error, 8)
		for worker := range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				for range 50 {
					data := []int32{int32(worker)}
					if err := farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Name(fmt.Sprint("worker/", worker)), farandole.Reduce(farandole.Max)); err != nil {
						problems <- err
						return
					}
					if data[0] != int32(worker) {
						problems <- fmt.Errorf("worker %d has %d", worker, data[0])
					}
				}
			}()
		}
		all.Wait()
		close(problems)
		for err := range problems {
			r.require(err)
		}
	}},
	{"a call allocates nothing in the steady state", func(r *rank) {
		data, ctx := []float32{1}, context.Background()
		found := testing.AllocsPerRun(200, func() {
			r.require(farandole.AllreduceInPlace(ctx, r.job, data, farandole.Name("steady"), farandole.Reduce(farandole.Max), farandole.Shape(1, 1)))
		})
		requireThat(found == 0, "%v allocations a call", found)
	}},
	{"arenas are reduced in place", func(r *rank) {
		arena, err := farandole.NewArena(r.ctx, r.job, "arena", 1<<20)
		if r.job.LocalSize() < r.job.Size() || (os.Getenv("FARANDOLE_TRANSPORT") == "tcp" && r.job.Size() > 1) {
			requireError(err, farandole.ErrUnimplemented)
			return
		}
		r.require(err)
		defer arena.Release()
		data, err := farandole.InArena[float32](arena, 4096, 1000)
		r.require(err)
		for i := range data {
			data[i] = float32(r.job.Rank())
		}
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Name("in arena"), farandole.Reduce(farandole.Max)))
		requireThat(data[999] == float32(r.job.Size()-1), "the greatest rank is %v", data[999])
		counters, err := r.job.Counters()
		r.require(err)
		requireThat(counters.Submissions > 0 && (counters.ArenaBytes > 0 || r.job.Size() == 1), "%+v", counters)
		_, err = farandole.InArena[float64](arena, 4, 1)
		requireError(err, farandole.ErrMismatch, "from byte 4 on")
		_, err = farandole.InArena[float64](arena, 0, 1<<20)
		requireError(err, farandole.ErrMismatch, fmt.Sprint(1<<20))
	}},
	{"numbers of the program are logged", func(r *rank) {
		step := int64(10)
		r.require(r.job.Log("loss", 0.5, farandole.Logged{}))
		r.require(r.job.Log("loss", 0.25, farandole.Logged{Step: &step, ByRank: true}))
		long := strings.Repeat("x", 129)
		requireError(r.job.Log(long, 1, farandole.Logged{}), farandole.ErrMismatch, "has 129 bytes; a name that is logged has 1 to 128")
	}},
	{"sections of the program are marked", func(r *rank) {
		data := r.job.Section("data")
		r.require(data.Err())
		within := r.job.Section("decode")
		r.require(within.Err())
		data.End()
		within.End()
		within.End()
		wrong := r.job.Section(strings.Repeat("x", 65))
		requireError(wrong.Err(), farandole.ErrMismatch, "has 65 bytes; a section's name has 1 to 64")
		wrong.End()
	}},
	{"timelines are written", func(r *rank) {
		path := filepath.Join(os.Getenv(folderVariable), "timeline.json")
		r.require(r.job.StartTimeline(path, true))
		r.require(farandole.Barrier(r.ctx, r.job))
		r.require(r.job.StopTimeline())
		requireError(r.job.StartTimeline(filepath.Join(path, "no"), false), farandole.ErrMismatch, path)
		if r.job.Rank() == 0 {
			_, err := os.Stat(path)
			r.require(err)
		}
	}},
	{"checkpoints are saved and found", func(r *rank) {
		folder := filepath.Join(os.Getenv(folderVariable), "checkpoints")
		write := func(path string) error { return os.WriteFile(path, []byte("state"), 0o600) }
		path, err := farandole.SaveCheckpoint(r.ctx, r.job, folder, 7, farandole.CheckpointOptions{Name: "go"}, write)
		r.require(err)
		content, err := os.ReadFile(path)
		r.require(err)
		requireThat(string(content) == "state", "the file has %q", content)
		found, step, err := r.job.FindCheckpoint(folder, "go", -1)
		r.require(err)
		requireThat(found == path && step == 7, "found %s of step %d", found, step)
		_, _, err = r.job.FindCheckpoint(folder, "other", -1)
		requireThat(errors.Is(err, farandole.ErrNotFound) && errors.Is(err, os.ErrNotExist), "the error is %v", err)
		_, err = farandole.SaveCheckpoint(r.ctx, r.job, folder, 7, farandole.CheckpointOptions{Name: "go"}, write)
		requireThat(err != nil, "a second one of the same step")
		if r.job.Rank() == 0 {
			requireThat(errors.Is(err, farandole.ErrExists), "the error is %v", err)
		}
		_, err = farandole.SaveCheckpoint(r.ctx, r.job, folder, 8, farandole.CheckpointOptions{}, func(string) error { return errors.New("the ink is dry") })
		requireThat(err != nil, "the function's error is lost")
		requireError(err, err, "the ink is dry")
	}},
	// tests/integration/checkpoints has somebody ask.
	{"nobody wants a checkpoint unasked", func(r *rank) {
		for range 100 {
			requested, err := r.job.CheckpointRequested(r.ctx)
			r.require(err)
			requireThat(!requested, "somebody wants one")
		}
	}},
}
