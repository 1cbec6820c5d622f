package tests

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"runtime"

	"farandole.dev/go/farandole"
)

// epochChecks end the job's epoch: they come last.
var epochChecks = []check{
	{"a process has one job at a time", func(r *rank) {
		_, err := farandole.Init(r.ctx, farandole.Options{})
		requireError(err, farandole.ErrNotRunning, "initialized already")
	}},
	{"an elastic loop in a job that is not elastic runs once", func(r *rank) {
		weights, step := []float32{float32(r.job.Rank())}, r.job.Rank()
		calls := 0
		r.require(farandole.RunElastic(r.ctx, r.job, farandole.Variables(&weights, &step), func(ctx context.Context, loop *farandole.Loop) error {
			calls++
			requireThat(weights[0] == 0 && step == 0, "the state is %v and %d, not rank 0's", weights, step)
			step++
			return loop.Commit(ctx)
		}))
		requireThat(calls == 1 && step == 1, "%d calls", calls)
		own := errors.New("its own")
		err := farandole.RunElastic(r.ctx, r.job, farandole.Variables(&step), func(context.Context, *farandole.Loop) error { return own })
		requireThat(errors.Is(err, own), "the error is %v", err)
	}},
	{"a state that was changed between hosts is not decoded", func(r *rank) {
		var content bytes.Buffer
		r.require(gob.NewEncoder(&content).Encode(map[string]int{"a": 6}))
		if r.job.Rank() == 0 {
			// In the place of somebody between the hosts, who does not know the epoch's secret.
			r.require(farandole.BroadcastInPlace(r.ctx, r.job, []int64{int64(content.Len())}, 0))
			r.require(farandole.BroadcastInPlace(r.ctx, r.job, content.Bytes(), 0))
			r.require(farandole.BroadcastInPlace(r.ctx, r.job, make([]byte, 32), 0))
			return
		}
		step := map[string]int{"a": 5}
		err := farandole.Variables(&step).Sync(r.ctx, r.job, 0)
		if r.job.LocalSize() == r.job.Size() {
			r.require(err) // on one host nothing crosses a network
			requireThat(step["a"] == 6, "the state is %v", step)
			return
		}
		requireError(err, farandole.ErrCorrupt, "the state of rank 0 was changed on its way")
		requireThat(step["a"] == 5, "the state is %v", step)
	}},
	{"shutdown ends what is pending and leaves no goroutine", func(r *rank) {
		before := runtime.NumGoroutine()
		var handle *farandole.Handle
		var err error
		if r.job.Rank() == 0 && r.job.Size() > 1 {
			handle, err = farandole.BarrierAsync(r.job, farandole.Name("nobody comes"))
			r.require(err)
			_ = handle.Done()
		}
		// A rank that left before would have the submission refused.
		r.require(farandole.Barrier(r.ctx, r.job, farandole.Name("before the end")))
		r.require(r.job.Shutdown(r.ctx))
		if handle != nil {
			<-handle.Done()
			requireError(handle.Err(), farandole.ErrEpochEnded)
		}
		// A goroutine counts until it has really gone, which a Gosched or two brings about.
		for range 1000 {
			if runtime.NumGoroutine() <= before {
				break
			}
			runtime.Gosched()
		}
		requireThat(runtime.NumGoroutine() <= before, "%d goroutines, before there were %d", runtime.NumGoroutine(), before)
		r.require(r.job.Shutdown(r.ctx))
		requireError(farandole.Barrier(r.ctx, r.job), farandole.ErrNotRunning)
	}},
	{"a job that was shut down does nothing to a later one", func(r *rank) {
		later, err := farandole.Init(r.ctx, farandole.Options{})
		r.require(err)
		requireError(farandole.Barrier(r.ctx, r.job), farandole.ErrNotRunning, "this Job was shut down")
		requireError(r.job.Fail("not of the later one"), farandole.ErrNotRunning)
		r.require(r.job.Shutdown(r.ctx))
		data := []float64{1}
		r.require(farandole.AllreduceInPlace(r.ctx, later, data, farandole.Reduce(farandole.Sum)))
		requireThat(data[0] == float64(later.Size()) && later.Size() == r.job.Size(), "the sum is %v", data[0])
		r.require(later.Shutdown(r.ctx))
	}},
}
