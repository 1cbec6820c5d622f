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
	"sync/atomic"
	"unsafe"

	"farandole.dev/go/internal/fault"
)

// CheckpointOptions are the choices of a checkpoint; the zero value is good.
type CheckpointOptions struct {
	// Name is the checkpoint's name, of 1 to 256 bytes; "" stands for "checkpoint".
	Name string
	// Extension ends the file's name; "" stands for "bin".
	Extension string
	// Replace: a checkpoint of the same name and step, of an earlier run, gives way when this one is committed.
	Replace bool
}

func (o CheckpointOptions) withDefaults() CheckpointOptions {
	if o.Name == "" {
		o.Name = "checkpoint"
	}
	if o.Extension == "" {
		o.Extension = "bin"
	}
	return o
}

// Checkpoint is a session: the right to write one checkpoint. Write the file at Path, and then Commit, Fail or Abandon.
type Checkpoint struct {
	job    *Job
	number C.int64_t
	path   string
	// Committed, failed or abandoned.
	isOver atomic.Bool
}

// BeginCheckpoint asks for the right to write a checkpoint of a step into a directory of this host. Only rank 0 gets it,
// and one checkpoint may be open at a time.
//
// ErrDenied: this is not rank 0. ErrExists: there is one of this name and step (the sentence has its path), and Replace is
// not set. ErrNotRunning: another one is open. ErrQuota: the disk is full. ErrUnavailable: the directory cannot be written,
// or the coordinator not be reached.
func (j *Job) BeginCheckpoint(directory string, step int64, options CheckpointOptions) (*Checkpoint, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	place, name, extension := C.CString(directory), C.CString(options.Name), C.CString(options.Extension)
	defer C.free(unsafe.Pointer(place))
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(extension))
	replace := C.int(0)
	if options.Replace {
		replace = 1
	}
	var number C.int64_t
	outcome := C.farandole_go_checkpoint_begin(place, name, C.int64_t(step), extension, replace, &number)
	if err := errorOf(outcome); err != nil {
		return nil, err
	}
	return &Checkpoint{job: j, number: number, path: takeString(outcome.sentence)}, nil
}

// Path is the temporary file to write.
func (c *Checkpoint) Path() string { return c.path }

// end gives nil once, while the Job that has begun the session is the present one.
func (c *Checkpoint) end() error {
	if c.isOver.Swap(true) {
		return fault.New(fault.FailedPrecondition, "this checkpoint was committed, failed or abandoned already")
	}
	return c.job.check()
}

// Commit checksums, syncs and renames the written file and enters it into the job's catalogue: from then on the checkpoint
// exists, as the path that Commit returns. After an error nothing is left, unless the sentence says that the file stays.
//
// ErrEpochEnded: a newer writer has taken over, or the epoch ended. ErrUnavailable: the coordinator cannot be reached.
func (c *Checkpoint) Commit() (path string, err error) {
	if err := c.end(); err != nil {
		return "", err
	}
	outcome := C.farandole_go_checkpoint_commit(c.number)
	if err := errorOf(outcome); err != nil {
		return "", err
	}
	return takeString(outcome.sentence), nil
}

// Fail removes the file, whose writing has failed for this cause, and gives the error to report: ErrQuota where the disk is
// full.
func (c *Checkpoint) Fail(cause error) error {
	if err := c.end(); err != nil {
		return err
	}
	words := C.CString(cause.Error())
	defer C.free(unsafe.Pointer(words))
	return errorOf(C.farandole_go_checkpoint_fail(c.number, words))
}

// Abandon removes the file. It does nothing after Commit, Fail or Abandon.
func (c *Checkpoint) Abandon() {
	if c.end() == nil {
		C.farandole_go_checkpoint_abandon(c.number)
	}
}

// SaveCheckpoint writes a checkpoint on rank 0, by the function that writes the file of the path it is given, and gives
// the checkpoint's path to all ranks, which all call it. Without an error the checkpoint exists on return. An error of
// the function on rank 0 is an error on all ranks; on rank 0 errors.Is finds it. Further errors as of BeginCheckpoint and
// Checkpoint.Commit.
func SaveCheckpoint(ctx context.Context, job *Job, directory string, step int64, options CheckpointOptions, write func(path string) error) (string, error) {
	var path string
	var err error
	if job.Rank() == 0 {
		path, err = job.save(directory, step, options, write)
	}
	said := []string{path, ""}
	if err != nil {
		said[1] = err.Error()
	}
	if told := broadcastStrings(ctx, job, said, 0); told != nil {
		return "", errors.Join(err, told)
	}
	if err == nil && said[1] != "" {
		err = fmt.Errorf("rank 0 could not write the checkpoint: %s", said[1])
	}
	return said[0], err
}

func (j *Job) save(directory string, step int64, options CheckpointOptions, write func(path string) error) (string, error) {
	session, err := j.BeginCheckpoint(directory, step, options)
	if err != nil {
		return "", err
	}
	isWritten := false
	defer func() {
		if !isWritten { // a panic in the function
			session.Abandon()
		}
	}()
	cause := write(session.Path())
	isWritten = true
	if cause != nil {
		return "", errors.Join(session.Fail(cause), cause)
	}
	return session.Commit()
}

// CheckpointRequested tells whether somebody wants a checkpoint now (`farandole job checkpoint`): true once for each
// request, at the same call on all ranks. Every rank must call it equally often: once a step, in an elastic job after
// Loop.Commit. Most calls only count; two a second, and every 32nd at least, are a small allreduce.
//
// ErrEpochEnded: the next epoch is told of the request again.
func (j *Job) CheckpointRequested(ctx context.Context) (bool, error) {
	if err := j.check(); err != nil {
		return false, err
	}
	requested, err := blocking(ctx, "CheckpointRequested", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_checkpoint_requested(cancel)
	})
	return requested != 0, err
}

// FindCheckpoint gives the path and the step of a checkpoint of a name ("": of any) in the job's catalogue: that of the
// step, or with -1 the newest. Without a coordinator it looks at the files of the directory. ErrNotFound: there is
// none.
func (j *Job) FindCheckpoint(directory, name string, step int64) (path string, found int64, err error) {
	if err := j.check(); err != nil {
		return "", 0, err
	}
	place, text := C.CString(directory), C.CString(name)
	defer C.free(unsafe.Pointer(place))
	defer C.free(unsafe.Pointer(text))
	outcome := C.farandole_go_checkpoint_find(place, text, C.int64_t(step))
	if err := errorOf(outcome); err != nil {
		return "", 0, err
	}
	return takeString(outcome.sentence), int64(outcome.value), nil
}

// broadcastStrings gives the root's strings to all ranks.
func broadcastStrings(ctx context.Context, job *Job, texts []string, root int) error {
	lengths := make([]int64, len(texts))
	for i, text := range texts {
		lengths[i] = int64(len(text))
	}
	if err := BroadcastInPlace(ctx, job, lengths, root); err != nil {
		return err
	}
	for i := range texts {
		content := make([]byte, lengths[i])
		if job.Rank() == root {
			copy(content, texts[i])
		}
		if err := BroadcastInPlace(ctx, job, content, root); err != nil {
			return err
		}
		texts[i] = string(content)
	}
	return nil
}
