package farandole

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// ErrWorkersChange is what Loop.Commit and Loop.Check give on all ranks at once, when workers want to join or are to
// leave. The function of RunElastic returns it, and RunElastic goes on in the next epoch.
var ErrWorkersChange = errors.New("farandole: workers join or leave the job")

// Of ranks that have committed equally often the lowest is the most advanced.
const mostRanks = 1 << 16

// Loop is what the function of RunElastic works with, in one goroutine.
type Loop struct {
	// Job is this process's part in the job. Its Rank and Size are those of the present epoch.
	Job *Job

	state   State
	commits int64
	// Whether workers have joined or left by the last change that the ranks have agreed about.
	hasJoining bool
}

// RunElastic calls a function in each epoch of an elastic job until it returns nil or an error of its own. The function's
// actions follow from the state, and from the job's Rank and Size, alone; it commits at the same points on all ranks, and
// returns the errors of commits and operations as they are, or wrapped.
//
// When a worker is lost (ErrEpochEnded), the ranks that are left join the next epoch, restore the state of the last
// commit, and take that of the most advanced of them. When workers join or leave in order (ErrWorkersChange), the state
// goes on as it is, and newcomers get it. Operations outside of the function would meet no peers on a worker that joins
// later. Process sets and arenas end with their epoch: make them in the function.
//
// While RunElastic is at work, the first SIGTERM has this worker leave at its next commit, and the second one ends the
// process, unless the program has asked os/signal to ignore SIGTERM.
//
// ErrDismissed: the job has no place for this process any more, which is to end in order. ErrEpochEnded: the job is not
// elastic, or has failed; the state was restored. It also works in a job that is not elastic, whose first epoch is its
// last.
func RunElastic(ctx context.Context, job *Job, state State, function func(ctx context.Context, loop *Loop) error) error {
	loop := &Loop{Job: job, state: state}
	if err := state.Save(); err != nil {
		return err
	}
	if job.IsElastic() && !signal.Ignored(syscall.SIGTERM) {
		grace, err := departGrace()
		if err != nil {
			return err
		}
		stop := loop.departOnSignal(grace)
		defer stop()
	}
	wantsSync := true
	for isFirst := true; ; isFirst = false {
		moves := !isFirst && job.IsElastic()
		if moves {
			if err := job.rejoin(ctx); err != nil {
				return err
			}
		}
		err := loop.runEpoch(ctx, wantsSync, function)
		switch {
		case errors.Is(err, ErrEpochEnded):
			if restored := state.Restore(); restored != nil {
				return errors.Join(restored, err)
			}
			if !job.IsElastic() {
				return err
			}
			wantsSync = true
		case errors.Is(err, ErrWorkersChange):
			// All ranks leave with the same agreed state: a later loss goes back to it, and newcomers get it.
			wantsSync = loop.hasJoining
			if saved := state.Save(); saved != nil {
				return saved
			}
		default:
			return err
		}
	}
}

func (l *Loop) runEpoch(ctx context.Context, wantsSync bool, function func(ctx context.Context, loop *Loop) error) error {
	if err := l.syncWhereWanted(ctx, wantsSync); err != nil {
		return err
	}
	return function(ctx, l)
}

// syncWhereWanted: ranks come to an epoch in different ways, and one that needs the state gets it from those that have it.
func (l *Loop) syncWhereWanted(ctx context.Context, wantsSync bool) error {
	wanted := []int64{0}
	if wantsSync {
		wanted[0] = 1
	}
	if err := AllreduceInPlace(ctx, l.Job, wanted, Name("farandole.elastic.sync"), Reduce(Max)); err != nil || wanted[0] == 0 {
		return err
	}
	most := []int64{l.commits*mostRanks + mostRanks - 1 - int64(l.Job.Rank())}
	if err := AllreduceInPlace(ctx, l.Job, most, Name("farandole.elastic.advanced"), Reduce(Max)); err != nil {
		return err
	}
	if err := l.state.Sync(ctx, l.Job, int(mostRanks-1-most[0]%mostRanks)); err != nil {
		return err
	}
	l.commits = most[0] / mostRanks
	return l.state.Save()
}

// Commit saves the state, which a loss goes back to, and checks for changes as Check does. All ranks call it at the same
// points of the program. It costs a copy of the state in memory.
func (l *Loop) Commit(ctx context.Context) error {
	if err := l.state.Save(); err != nil {
		return err
	}
	l.commits++
	return l.Check(ctx)
}

// Check agrees among all ranks whether workers want to join or leave: some microseconds, and nothing where the job is not
// elastic. ErrWorkersChange, on all ranks at once: they do. ErrEpochEnded: a worker has died.
func (l *Loop) Check(ctx context.Context) error {
	if !l.Job.IsElastic() {
		return nil
	}
	change, err := l.Job.Change()
	if err != nil {
		return err
	}
	wanted := []int64{int64(change.Joining), int64(change.Leaving)}
	if err := AllreduceInPlace(ctx, l.Job, wanted, Name("farandole.elastic.check"), Reduce(Max)); err != nil {
		return err
	}
	if wanted[0] == 0 && wanted[1] == 0 {
		return nil
	}
	l.hasJoining = wanted[0] > 0
	return ErrWorkersChange
}

// rejoin leaves the present epoch and joins the job's next one, in this process.
func (j *Job) rejoin(ctx context.Context) error {
	if err := j.check(); err != nil {
		return err
	}
	_, err := blocking(ctx, "the join of the job's next epoch", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_rejoin(cancel)
	})
	j.dropPending("this process has joined the next one")
	if err == nil {
		j.readPlace()
	}
	return err
}

// Change is the coordinator's last notice of workers that are to come and to go.
type Change struct {
	// Serial counts up within an epoch, from 1; 0: nothing is wanted.
	Serial uint32
	// Joining is how many workers wait to join, Leaving how many ranks are to leave.
	Joining, Leaving int
	// ILeave: this rank is one of them.
	ILeave bool
	// Sentence names the workers and the reason.
	Sentence string
}

// Change gives the last notice of this epoch. Nothing follows from it by itself: Loop.Check has the ranks agree on it.
func (j *Job) Change() (Change, error) {
	if err := j.check(); err != nil {
		return Change{}, err
	}
	native := (*C.farandole_change)(C.calloc(1, C.sizeof_farandole_change))
	defer C.free(unsafe.Pointer(native))
	native.struct_bytes = C.sizeof_farandole_change
	outcome := C.farandole_go_change_wanted(native)
	if err := errorOf(outcome); err != nil {
		return Change{}, err
	}
	return Change{
		Serial:   uint32(native.serial),
		Joining:  int(native.joining),
		Leaving:  int(native.leaving),
		ILeave:   native.i_leave == 1,
		Sentence: takeString(outcome.sentence),
	}, nil
}

// Depart tells the coordinator that another program will end this process after the grace, for a reason in one
// sentence: its rank is drained, and leaves at the next Commit or Check. ErrNotRunning: the job is not elastic.
func (j *Job) Depart(grace time.Duration, reason string) error {
	text := C.CString(reason)
	defer C.free(unsafe.Pointer(text))
	return j.call(func() C.farandole_go_outcome { return C.farandole_go_depart(C.int64_t(grace.Milliseconds()), text) })
}

// prove gives 32 bytes that only workers of this epoch can make of the label and the content. All 0 on one host.
func (j *Job) prove(label string, content []byte) ([]byte, error) {
	proof := make([]byte, 32)
	text := C.CString(label)
	defer C.free(unsafe.Pointer(text))
	bytes, size := unsafe.Pointer(unsafe.SliceData(content)), C.int64_t(len(content))
	return proof, j.call(func() C.farandole_go_outcome {
		return C.farandole_go_prove(text, bytes, size, unsafe.Pointer(&proof[0]))
	})
}

// departOnSignal has the first SIGTERM drain this rank, and the second end the process, until the function that it gives
// is called.
func (l *Loop) departOnSignal(grace time.Duration) func() {
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM)
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		defer ended.Done()
		select {
		case <-over:
		case <-signals:
			signal.Stop(signals)
			fmt.Fprintln(os.Stderr, "farandole: SIGTERM: this worker leaves the job at its next commit")
			// The program may have left the job meanwhile.
			_ = l.Job.Depart(grace, "its process was sent SIGTERM")
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
		ended.Wait()
	}
}
