package farandole

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"farandole.dev/go/internal/fault"
)

// Options are the settings of Init. A field's zero value takes the environment variable named beside it, which
// `farandole run` sets; if that is not set either, the default of docs/settings.md.
type Options struct {
	// Coordinator is HOST:PORT (FARANDOLE_COORDINATOR). Without it the process is a job of size 1.
	Coordinator string
	// TokenFile holds the tenant's token (FARANDOLE_TOKEN_FILE).
	TokenFile string
	// CAFile holds certificates, PEM, that the coordinator's must descend from (FARANDOLE_CA_FILE). Without it TLS is not
	// spoken.
	CAFile string
	// CertFile and KeyFile, PEM, prove the worker to the coordinator where it has no token (FARANDOLE_CERT_FILE,
	// FARANDOLE_KEY_FILE).
	CertFile, KeyFile string
	// Job is the job's name (FARANDOLE_JOB).
	Job string
	// Size is the number of workers (FARANDOLE_SIZE).
	Size int
	// LaunchIndex orders the ranks (FARANDOLE_LAUNCH_INDEX). It counts from 1, so that 0 is not set.
	LaunchIndex int
	// MinSize and MaxSize are the fewest and the most workers of an epoch (FARANDOLE_MIN_SIZE, FARANDOLE_MAX_SIZE). One of
	// them makes the job elastic.
	MinSize, MaxSize int
	// Transport is "auto", "shm", "tcp" or "gloo" (FARANDOLE_TRANSPORT).
	Transport string
	// FusionThreshold is the most bytes of a fused batch (FARANDOLE_FUSION_THRESHOLD_BYTES).
	FusionThreshold int64
	// JoinTimeout is how long Init waits for the other workers (FARANDOLE_JOIN_TIMEOUT_MS).
	JoinTimeout time.Duration
	// StallWarning is how long a tensor may wait before the coordinator names the late ranks (FARANDOLE_STALL_WARNING_MS).
	StallWarning time.Duration
	// OutageLimit is how long the coordinator may be away (FARANDOLE_OUTAGE_LIMIT_MS).
	OutageLimit time.Duration
	// Program is the path of `farandole`, of which rank 0 under plain mpirun or srun starts the job's coordinator
	// (FARANDOLE_PROGRAM).
	Program string
	// Members, if it is not empty, are the launch indices of those workers that are to be a job of their own, in the order
	// of its ranks.
	Members []int
}

// Job is this process's part in a job, from Init to Shutdown. Its methods and the operations may be called from any
// goroutine. One that was shut down refuses them (ErrNotRunning), and does nothing to a later one.
type Job struct {
	// Holds a value while a goroutine is in Shutdown.
	leaving chan struct{}

	mu    sync.Mutex
	place place
	// Submissions that are pending, the oldest first, and of them those whose Done was called.
	pending  list
	watched  []*Handle
	watching bool
	watchers sync.WaitGroup
	turn     turn
}

// place holds this worker's numbers in the present epoch.
type place struct {
	rank, size, localRank, localSize, crossRank, crossSize int
	epoch                                                  int64
	isHomogeneous, isElastic                               bool
}

// present is the Job of the last Init until that is shut down: the process's worker is its.
var present atomic.Pointer[Job]

// check gives nil, or the error of a Job that is not the present one.
func (j *Job) check() error {
	if j != nil && present.Load() == j {
		return nil
	}
	return fault.New(fault.FailedPrecondition, "this Job was shut down, so that it has no part in a job any more")
}

// call makes a call of the library for the present Job.
func (j *Job) call(function func() C.farandole_go_outcome) error {
	if err := j.check(); err != nil {
		return err
	}
	return errorOf(function())
}

// Version gives the version of the worker library, "0.1.0". The error names where the library was looked for.
func Version() (string, error) {
	if err := load(); err != nil {
		return "", err
	}
	return C.GoString(C.farandole_go_version()), nil
}

// Init joins the job and returns when all its workers have. Without a launcher's environment, and without
// Options.Coordinator, the process is a job of size 1. A process has one job at a time. Follow it by
// `defer job.Shutdown(ctx)`; or let Run do both.
//
// ErrMismatch: a setting is not valid, or workers disagree about the size. ErrStalled: not all workers came in time; the
// sentence names those that did. ErrUnavailable, ErrDenied, ErrQuota: the coordinator cannot be reached, or refuses.
// ErrNotRunning: there is no worker library, or the process has a job already. ErrDismissed: an elastic job has finished
// while this process waited for a place. The context's error: it ended before.
func Init(ctx context.Context, options Options) (*Job, error) {
	if err := load(); err != nil {
		return nil, err
	}
	if err := offerStacks(); err != nil {
		return nil, err
	}
	native, free := options.native()
	defer free()
	_, err := blocking(ctx, "Init", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_init(native, cancel)
	})
	if err != nil {
		return nil, err
	}
	job := &Job{leaving: make(chan struct{}, 1)}
	job.pending.init()
	job.readPlace()
	present.Store(job)
	return job, nil
}

// native gives the options in C's memory, and the function that frees it.
func (o Options) native() (*C.farandole_init_options, func()) {
	native := (*C.farandole_init_options)(C.calloc(1, C.sizeof_farandole_init_options))
	allocated := []unsafe.Pointer{unsafe.Pointer(native)}
	text := func(value string) *C.char {
		if value == "" {
			return nil
		}
		copied := C.CString(value)
		allocated = append(allocated, unsafe.Pointer(copied))
		return copied
	}
	native.struct_bytes = C.sizeof_farandole_init_options
	native.coordinator = text(o.Coordinator)
	native.token_file = text(o.TokenFile)
	native.ca_file = text(o.CAFile)
	native.cert_file = text(o.CertFile)
	native.key_file = text(o.KeyFile)
	native.job = text(o.Job)
	native.size = int32Of(o.Size)
	native.launch_index = int32Of(o.LaunchIndex)
	native.min_size = int32Of(o.MinSize)
	native.max_size = int32Of(o.MaxSize)
	native.transport = text(o.Transport)
	native.fusion_threshold_bytes = C.int64_t(o.FusionThreshold)
	native.join_timeout_ms = C.int64_t(o.JoinTimeout.Milliseconds())
	native.stall_warning_ms = C.int64_t(o.StallWarning.Milliseconds())
	native.outage_limit_ms = C.int64_t(o.OutageLimit.Milliseconds())
	native.program = text(o.Program)
	if len(o.Members) > 0 {
		memory := C.calloc(C.size_t(len(o.Members)), C.sizeof_int32_t)
		allocated = append(allocated, memory)
		for i, member := range o.Members {
			unsafe.Slice((*C.int32_t)(memory), len(o.Members))[i] = int32Of(member)
		}
		native.members, native.member_count = (*C.int32_t)(memory), int32Of(len(o.Members))
	}
	return native, func() {
		for _, memory := range allocated {
			C.free(memory)
		}
	}
}

// int32Of gives a number in C; one that does not fit becomes the nearest, which the library refuses by name.
func int32Of(value int) C.int32_t { return C.int32_t(min(max(value, math.MinInt32), math.MaxInt32)) }

func (j *Job) readPlace() {
	read := place{
		rank:          number(C.farandole_go_rank()),
		size:          number(C.farandole_go_size()),
		localRank:     number(C.farandole_go_local_rank()),
		localSize:     number(C.farandole_go_local_size()),
		crossRank:     number(C.farandole_go_cross_rank()),
		crossSize:     number(C.farandole_go_cross_size()),
		epoch:         int64(number(C.farandole_go_epoch())),
		isHomogeneous: number(C.farandole_go_is_homogeneous()) == 1,
		isElastic:     C.farandole_go_is_elastic() == 1,
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.place = read
}

func (j *Job) here() place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.place
}

// Rank is this worker's number in the present epoch, 0 to Size() - 1. After Shutdown it, and the numbers below, are those
// of the last epoch.
func (j *Job) Rank() int { return j.here().rank }

// Size is the number of workers.
func (j *Job) Size() int { return j.here().size }

// LocalRank is this worker's number among the job's workers of this host.
func (j *Job) LocalRank() int { return j.here().localRank }

// LocalSize is the number of the job's workers of this host.
func (j *Job) LocalSize() int { return j.here().localSize }

// CrossRank is this worker's number among the workers with its local rank, one a host.
func (j *Job) CrossRank() int { return j.here().crossRank }

// CrossSize is the number of hosts that have a worker with this local rank.
func (j *Job) CrossSize() int { return j.here().crossSize }

// IsHomogeneous tells whether every host has equally many workers.
func (j *Job) IsHomogeneous() bool { return j.here().isHomogeneous }

// Epoch is the number of the epoch; 0 for a job of size 1 without a coordinator.
func (j *Job) Epoch() int64 { return j.here().epoch }

// IsElastic tells whether the job outlives its epochs.
func (j *Job) IsElastic() bool { return j.here().isElastic }

// EpochEnded gives nil, or the ErrEpochEnded that says why the present epoch has ended.
func (j *Job) EpochEnded() error {
	return j.call(func() C.farandole_go_outcome { return C.farandole_go_epoch_ended() })
}

// Fail ends the epoch on all ranks, with these words (at most 1,024 bytes are kept): this worker's program has failed and
// cannot go on. Shutdown is to follow. It does nothing where the epoch has ended already.
func (j *Job) Fail(words string) error {
	text := C.CString(words)
	defer C.free(unsafe.Pointer(text))
	return j.call(func() C.farandole_go_outcome { return C.farandole_go_fail(text) })
}

// Shutdown leaves the job in order and returns when it has; rank 0 stays until all ranks have left or died. Pending
// submissions end with ErrEpochEnded. It does nothing after the first time. A context that ends before makes this worker
// leave at once, which ends the epoch for the others.
//
// Go runs no code of a package at a process's end: a program that ends without Shutdown is lost for its peers.
func (j *Job) Shutdown(ctx context.Context) error {
	if j.check() != nil {
		return nil
	}
	if !j.takeLeave(ctx) {
		return given(ctx, "Shutdown")
	}
	defer func() { <-j.leaving }()
	if j.check() != nil {
		return nil
	}
	_, err := interruptible(ctx, "Shutdown", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_shutdown(cancel)
	})
	if C.farandole_go_is_initialized() == 1 {
		return err // it was given up before it began
	}
	present.CompareAndSwap(j, nil)
	j.dropPending("this process has left its job")
	j.watchers.Wait()
	return err
}

// takeLeave waits while another goroutine is in Shutdown, and tells whether this one may be. It does not wait longer than
// the context.
func (j *Job) takeLeave(ctx context.Context) bool {
	select {
	case j.leaving <- struct{}{}:
		return true
	default:
	}
	select {
	case j.leaving <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run joins the job, calls the function and leaves the job in order. An error of the function, or a panic in it, ends the
// epoch on all ranks with its words; Run returns the error, or goes on to panic. An error of Init is returned as it is.
func Run(ctx context.Context, options Options, function func(ctx context.Context, job *Job) error) (err error) {
	job, err := Init(ctx, options)
	if err != nil {
		return err
	}
	isOver := false
	defer func() {
		if !isOver {
			cause := recover()
			if cause == nil {
				// As t.FailNow does in a test.
				_ = job.Fail("the function ended its goroutine (runtime.Goexit)")
				_ = job.Shutdown(ctx)
				return
			}
			_ = job.Fail(fmt.Sprintf("panic: %v", cause))
			_ = job.Shutdown(ctx)
			panic(cause)
		}
		if err != nil {
			_ = job.Fail(err.Error())
		}
		if left := job.Shutdown(ctx); err == nil {
			err = left
		}
	}()
	err = function(ctx, job)
	isOver = true
	return err
}

// StartTimeline records from now on what tensors wait for, in a file for chrome://tracing or Perfetto: path on rank 0, and
// on the others with ".rank1" and so on before its extension. It replaces the file; a file that is being written ends.
// markCycles: also where each batch of tensors begins. ErrMismatch: the file cannot be written.
func (j *Job) StartTimeline(path string, markCycles bool) error {
	text, marks := C.CString(path), C.int(0)
	defer C.free(unsafe.Pointer(text))
	if markCycles {
		marks = 1
	}
	return j.call(func() C.farandole_go_outcome { return C.farandole_go_start_timeline(text, marks) })
}

// StopTimeline ends the file, if one is recorded; Shutdown does it, too.
func (j *Job) StopTimeline() error {
	if j.check() != nil {
		return nil
	}
	return errorOf(C.farandole_go_stop_timeline())
}

// Logged says how Log keeps a number.
type Logged struct {
	// Step is that of the number; nil: one more than the last one of this name, from 0.
	Step *int64
	// ByRank keeps a curve for each rank; otherwise the values of a step are averaged, over ranks and calls.
	ByRank bool
}

// Log logs a number of the program, a loss say, for the job's curves (docs/logging.md). It never waits for the coordinator.
// ErrMismatch: the name cannot be one; ErrQuota: it is the 257th of this process; ErrNotRunning after Shutdown.
func (j *Job) Log(name string, value float64, how Logged) error {
	text, step, byRank := C.CString(name), C.int64_t(C.FARANDOLE_NEXT_STEP), C.int(0)
	defer C.free(unsafe.Pointer(text))
	if how.Step != nil {
		step = C.int64_t(*how.Step)
	}
	if how.ByRank {
		byRank = 1
	}
	return j.call(func() C.farandole_go_outcome { return C.farandole_go_log(text, C.double(value), step, byRank) })
}

// Section is a section of the program that goes on until its End.
type Section struct {
	number C.int64_t
	err    error
}

// Section begins a section of the program: defer job.Section("data").End(). The job's diagnosis then says in which section
// a slow rank loses its time (docs/diagnosis.md). Time counts for the section that began last in the process, on any
// goroutine, less the waits in this library. Names beyond the 15th count together. Nothing counts after Shutdown.
func (j *Job) Section(name string) *Section {
	if j.check() != nil {
		return &Section{}
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	outcome := C.farandole_go_section_begin(text)
	return &Section{C.int64_t(outcome.value), errorOf(outcome)}
}

// Err is nil, or ErrMismatch: the name cannot be one, and the section does not count.
func (s *Section) Err() error { return s.err }

// End ends the section, once.
func (s *Section) End() { C.farandole_go_section_end(s.number) }

// Counters tells of this worker's work since Init.
type Counters struct {
	// Submissions and Completions count the tensors accepted and completed, well or not.
	Submissions, Completions uint64
	// Batches counts the collectives run; Submissions / Batches is the fusion.
	Batches uint64
	// Bytes counts those of the tensors given to them, ArenaBytes those of them that were reduced in place in arenas.
	Bytes, ArenaBytes uint64
	// CoordinatorMessages counts messages about tensors to and from the coordinator; it stands still in the steady state.
	CoordinatorMessages uint64
	// Engine is the time in which a thread worked or waited inside collectives, Wait that which callers spent waiting.
	Engine, Wait time.Duration
}

// Counters reads this worker's counters. ErrNotRunning after Shutdown.
func (j *Job) Counters() (Counters, error) {
	native := (*C.farandole_counters)(C.calloc(1, C.sizeof_farandole_counters))
	defer C.free(unsafe.Pointer(native))
	native.struct_bytes = C.sizeof_farandole_counters
	err := j.call(func() C.farandole_go_outcome { return C.farandole_go_read_counters(native) })
	if err != nil {
		return Counters{}, err
	}
	return Counters{
		Submissions:         uint64(native.submissions),
		Completions:         uint64(native.completions),
		Batches:             uint64(native.batches),
		Bytes:               uint64(native.bytes),
		ArenaBytes:          uint64(native.arena_bytes),
		CoordinatorMessages: uint64(native.coordinator_messages),
		Engine:              time.Duration(native.engine_ns),
		Wait:                time.Duration(native.wait_ns),
	}, nil
}

// over gives the error of a submission whose epoch is over.
func over(why string) error {
	return fault.New(fault.Aborted, "a submission was pending when its epoch ended: "+why)
}
