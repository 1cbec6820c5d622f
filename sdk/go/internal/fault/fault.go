// Package fault holds the errors that the data plane (package farandole) and the control plane (package client) share.
package fault

import (
	"errors"
	"io/fs"
)

// Code is the number of an error, the same in the C interface, in gRPC and here. docs/errors.md says what each means.
type Code int32

// The codes. StillPending is no error: a wait's time is over.
const (
	OK                 Code = 0
	StillPending       Code = 1
	Cancelled          Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

// The errors that errors.Is finds in an *Error.
var (
	ErrDismissed     = errors.New("farandole: the job has no place for this process any more")
	ErrMismatch      = errors.New("farandole: the call is wrong, or ranks disagree about it")
	ErrStalled       = errors.New("farandole: a rank was silent beyond the limit")
	ErrNotFound      = errors.New("farandole: there is no such thing")
	ErrExists        = errors.New("farandole: it exists already")
	ErrDenied        = errors.New("farandole: the token is not known or does not allow it")
	ErrQuota         = errors.New("farandole: a quota, or another stated maximum, is reached")
	ErrNotRunning    = errors.New("farandole: the worker has not started, or has stopped, or this is not the time for it")
	ErrEpochEnded    = errors.New("farandole: the epoch ended")
	ErrUnimplemented = errors.New("farandole: it is not possible here")
	ErrInternal      = errors.New("farandole: a bug in Farandole")
	ErrUnavailable   = errors.New("farandole: the coordinator cannot be reached")
	ErrCorrupt       = errors.New("farandole: a checkpoint fails its checksum")
)

var errorOfCode = map[Code]error{
	Cancelled:          ErrDismissed,
	InvalidArgument:    ErrMismatch,
	DeadlineExceeded:   ErrStalled,
	NotFound:           ErrNotFound,
	AlreadyExists:      ErrExists,
	PermissionDenied:   ErrDenied,
	ResourceExhausted:  ErrQuota,
	FailedPrecondition: ErrNotRunning,
	Aborted:            ErrEpochEnded,
	Unimplemented:      ErrUnimplemented,
	Internal:           ErrInternal,
	Unavailable:        ErrUnavailable,
	DataLoss:           ErrCorrupt,
	Unauthenticated:    ErrDenied,
}

// Error is what a call of Farandole says: one sentence with what, who and both values.
type Error struct {
	// Code is the error's number.
	Code Code
	// Sentence is for people.
	Sentence string
}

// New gives an error; a code that is not known is an internal error.
func New(code Code, sentence string) *Error {
	if _, known := errorOfCode[code]; !known {
		code = Internal
	}
	return &Error{Code: code, Sentence: sentence}
}

// Error gives the sentence.
func (e *Error) Error() string { return e.Sentence }

// Is tells whether the error is one of the Err variables, or fs.ErrNotExist or fs.ErrExist where it is the like.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == NotFound
	case fs.ErrExist:
		return e.Code == AlreadyExists
	case fs.ErrPermission:
		return e.Code == PermissionDenied || e.Code == Unauthenticated
	}
	return errorOfCode[e.Code] == target
}
