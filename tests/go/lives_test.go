package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"farandole.dev/go/farandole"
)

// begin joins a job of size 1, in the test's own process.
func begin(t *testing.T) *farandole.Job {
	t.Helper()
	t.Setenv("FARANDOLE_LIBRARY", checkout(t, "sdk/python/farandole/_lib/libfarandole.so"))
	job, err := farandole.Init(context.Background(), farandole.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = job.Shutdown(context.Background()) })
	return job
}

func expectWorks(t *testing.T, job *farandole.Job) {
	t.Helper()
	if err := farandole.AllreduceInPlace(context.Background(), job, []float32{1, 2}, farandole.Name("works")); err != nil {
		t.Fatal(err)
	}
}

// operations are those of a job, and its methods that give errors.
func operations(job *farandole.Job) map[string]func() error {
	ctx, data := context.Background(), []float32{1, 2}
	of := func(operation func() (*farandole.Handle, error)) func() error {
		return func() error {
			_, err := operation()
			return err
		}
	}
	return map[string]func() error{
		"Allreduce":        func() error { return farandole.Allreduce(ctx, job, data, data) },
		"AllreduceAsync":   of(func() (*farandole.Handle, error) { return farandole.AllreduceInPlaceAsync(job, data) }),
		"GroupedAllreduce": func() error { return farandole.GroupedAllreduceInPlace(ctx, job, [][]float32{data}) },
		"Broadcast":        func() error { return farandole.BroadcastInPlace(ctx, job, data, 0) },
		"BroadcastAsync":   of(func() (*farandole.Handle, error) { return farandole.BroadcastInPlaceAsync(job, data, 0) }),
		"Reducescatter":    func() error { return farandole.Reducescatter(ctx, job, data, data) },
		"Barrier":          func() error { return farandole.Barrier(ctx, job) },
		"BarrierAsync":     of(func() (*farandole.Handle, error) { return farandole.BarrierAsync(job) }),
		"Join":             func() error { _, err := farandole.Join(ctx, job); return err },
		"Allgather":        func() error { _, err := farandole.Allgather(ctx, job, data); return err },
		"AllgatherAsync":   func() error { _, err := farandole.AllgatherAsync(job, data); return err },
		"GroupedAllgather": func() error { _, err := farandole.GroupedAllgather(ctx, job, [][]float32{data}); return err },
		"Alltoall":         func() error { _, err := farandole.Alltoall(ctx, job, data, nil); return err },
		"Gather":           func() error { _, err := farandole.Gather(ctx, job, data, 0); return err },
		"Scatter":          func() error { _, err := farandole.Scatter(ctx, job, data, 0); return err },
		"GroupedReducescatter": func() error {
			return farandole.GroupedReducescatter(ctx, job, [][]float32{data}, [][]float32{data})
		},
		"NewArena":      func() error { _, err := farandole.NewArena(ctx, job, "arena", 4096); return err },
		"AddProcessSet": func() error { _, err := job.AddProcessSet(ctx, 0); return err },
		"EpochEnded":    func() error { return job.EpochEnded() },
		"Fail":          func() error { return job.Fail("not of a later one") },
		"StartTimeline": func() error { return job.StartTimeline("/nowhere/trace.json", false) },
		"Log":           func() error { return job.Log("loss", 1, farandole.Logged{}) },
		"Counters":      func() error { _, err := job.Counters(); return err },
		"Change":        func() error { _, err := job.Change(); return err },
		"Depart":        func() error { return job.Depart(time.Second, "not of a later one") },
		"BeginCheckpoint": func() error {
			_, err := job.BeginCheckpoint("/nowhere", 1, farandole.CheckpointOptions{})
			return err
		},
		"CheckpointRequested": func() error { _, err := job.CheckpointRequested(ctx); return err },
		"FindCheckpoint":      func() error { _, _, err := job.FindCheckpoint("/nowhere", "", -1); return err },
	}
}

func TestJobThatWasShutDownRefusesAllAndDoesNothingToALaterOne(t *testing.T) {
	ctx := context.Background()
	old := begin(t)
	if err := old.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	later := begin(t)
	for _, job := range []*farandole.Job{old, {}, nil} {
		for name, operation := range operations(job) {
			if err := operation(); !errors.Is(err, farandole.ErrNotRunning) || !strings.Contains(err.Error(), "this Job was shut down") {
				t.Errorf("%s: %v", name, err)
			}
		}
		section := job.Section("data")
		section.End()
		for _, err := range []error{job.Shutdown(ctx), job.StopTimeline(), section.Err()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if old.Size() != 1 || old.IsElastic() {
		t.Errorf("size %d, elastic %v", old.Size(), old.IsElastic())
	}
	expectWorks(t, later)
}

func TestOldProcessSetIsOfNoLaterJob(t *testing.T) {
	ctx := context.Background()
	old := begin(t)
	set, err := old.AddProcessSet(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	later := begin(t)
	if _, err := later.AddProcessSet(ctx, 0); err != nil {
		t.Fatal(err)
	}
	err = farandole.Barrier(ctx, later, farandole.In(set))
	if !errors.Is(err, farandole.ErrMismatch) || !strings.Contains(err.Error(), "the process set [0] was made by another Job") {
		t.Error(err)
	}
	if err := set.Remove(ctx); !errors.Is(err, farandole.ErrNotRunning) {
		t.Error(err)
	}
}

func TestOldCheckpointAbandonsNoOther(t *testing.T) {
	ctx, folder := context.Background(), t.TempDir()
	sessionOf := func(job *farandole.Job, step int64) *farandole.Checkpoint {
		session, err := job.BeginCheckpoint(folder, step, farandole.CheckpointOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	commit := func(session *farandole.Checkpoint) {
		if err := os.WriteFile(session.Path(), []byte("state"), 0o600); err != nil {
			t.Fatal(err)
		}
		if path, err := session.Commit(); err != nil || filepath.Dir(path) != folder {
			t.Fatal(path, err)
		}
	}
	old := begin(t)
	open := sessionOf(old, 1)
	if err := old.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	later := begin(t)
	first := sessionOf(later, 2)
	open.Abandon()
	commit(first)
	second := sessionOf(later, 3)
	first.Abandon()
	if _, err := first.Commit(); !errors.Is(err, farandole.ErrNotRunning) {
		t.Error(err)
	}
	if err := open.Fail(errors.New("no ink")); !errors.Is(err, farandole.ErrNotRunning) {
		t.Error(err)
	}
	commit(second)
}

func TestGoroutinesShutOneJobDownBesideALaterOne(t *testing.T) {
	ctx := context.Background()
	for range 50 {
		old := begin(t)
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				if err := old.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			}()
		}
		if err := old.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		later := begin(t)
		expectWorks(t, later)
		all.Wait()
		expectWorks(t, later)
		if err := later.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
