package farandole

import (
	"context"
	"fmt"

	"farandole.dev/go/internal/fault"
)

// Error is what a call of this package says: a Code and one Sentence with what, who and both values. Compare it by
// errors.Is with the Err variables.
type Error = fault.Error

// The kinds of an Error, for errors.Is. docs/errors.md says what each means and what to do.
var (
	// ErrMismatch: this call is wrong, or ranks disagree about it. The job goes on.
	ErrMismatch = fault.ErrMismatch
	// ErrNotRunning: the worker has not started, or has stopped, or a call came at the wrong time.
	ErrNotRunning = fault.ErrNotRunning
	// ErrEpochEnded: a worker has died or left. Restore the last state and join again, as RunElastic does.
	ErrEpochEnded = fault.ErrEpochEnded
	// ErrStalled: a rank was silent beyond the limit; the sentence names it.
	ErrStalled = fault.ErrStalled
	// ErrUnavailable: the coordinator cannot be reached, although the library has tried again and again.
	ErrUnavailable = fault.ErrUnavailable
	// ErrQuota: the tenant's quota, the disk or another stated maximum is exhausted.
	ErrQuota = fault.ErrQuota
	// ErrDenied: the token is not known, or does not allow it.
	ErrDenied = fault.ErrDenied
	// ErrCorrupt: a checkpoint fails its checksum.
	ErrCorrupt = fault.ErrCorrupt
	// ErrInternal: a bug in Farandole. Please report it with its sentence.
	ErrInternal = fault.ErrInternal
	// ErrNotFound: there is no such process set or checkpoint. It is an fs.ErrNotExist as well.
	ErrNotFound = fault.ErrNotFound
	// ErrExists: there is a checkpoint of this name and step. It is an fs.ErrExist as well.
	ErrExists = fault.ErrExists
	// ErrUnimplemented: not possible here, for instance an arena for ranks of several hosts.
	ErrUnimplemented = fault.ErrUnimplemented
	// ErrDismissed: the job has no place for this process any more: it was drained, or the job has finished. The
	// process ends in order; that is no failure.
	ErrDismissed = fault.ErrDismissed
)

// mismatch gives the error of a call that is wrong already on this rank.
func mismatch(format string, values ...any) error {
	return fault.New(fault.InvalidArgument, fmt.Sprintf(format, values...))
}

// given gives the error of a call that was given up: the context's own, with what the library said.
func given(ctx context.Context, what string) error {
	return fmt.Errorf("farandole: %s was given up: %w", what, context.Cause(ctx))
}
