package farandole

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"slices"
	"unsafe"
)

// ProcessSet is some ranks of the job that run operations among themselves: give it to one by In. It belongs to the epoch
// in which it was made. Arguments such as a root are ranks of the job all the same.
type ProcessSet struct {
	job   *Job
	ranks []int
	group C.int32_t
	epoch int64
}

// AddProcessSet makes a process set of these ranks, in any order. All ranks of the job call it with the same ranks, in the
// same order among their calls, and it returns when all have. ErrMismatch: a rank is not in the job or is there twice, or
// ranks disagree (both are named). ErrEpochEnded: a worker has died meanwhile.
func (j *Job) AddProcessSet(ctx context.Context, ranks ...int) (*ProcessSet, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	sorted := slices.Clone(ranks)
	slices.Sort(sorted)
	numbers := make([]C.int32_t, len(sorted)+1)
	for i, rank := range sorted {
		numbers[i] = int32Of(rank)
	}
	group, err := blocking(ctx, "AddProcessSet", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_add_group(unsafe.SliceData(numbers), C.int32_t(len(sorted)), cancel)
	})
	if err != nil {
		return nil, err
	}
	return &ProcessSet{job: j, ranks: sorted, group: C.int32_t(group), epoch: j.Epoch()}, nil
}

// Remove ends the set, on all ranks of the job; all call it, in the same order among such calls. ErrNotRunning: operations
// of it are pending. ErrMismatch: it was removed already, or belongs to another epoch.
func (s *ProcessSet) Remove(ctx context.Context) error {
	if err := s.job.check(); err != nil {
		return err
	}
	// The present epoch may have another set of its number.
	group, err := s.groupOf(s.job)
	if err != nil {
		return err
	}
	_, err = blocking(ctx, "Remove", func(cancel *C.int32_t) C.farandole_go_outcome {
		return C.farandole_go_remove_group(group, cancel)
	})
	return err
}

// Ranks gives the set's ranks of the job, ascending.
func (s *ProcessSet) Ranks() []int { return slices.Clone(s.ranks) }

// Size is the number of its ranks.
func (s *ProcessSet) Size() int { return len(s.ranks) }

// Rank is this worker's position in the set; -1 if it is not in it, or the set belongs to another epoch.
func (s *ProcessSet) Rank() int {
	if s.epoch != s.job.Epoch() {
		return -1
	}
	return slices.Index(s.ranks, s.job.Rank())
}

// Includes tells whether this worker is in the set.
func (s *ProcessSet) Includes() bool { return s.Rank() >= 0 }

// groupOf gives the library's number of the set.
func (s *ProcessSet) groupOf(job *Job) (C.int32_t, error) {
	if s == nil {
		return 0, mismatch("In was given no process set: it is nil")
	}
	if s.job != job {
		return 0, mismatch("the process set %v was made by another Job, which has ended: add it again", s.ranks)
	}
	if s.epoch != job.Epoch() {
		return 0, mismatch("the process set %v belongs to epoch %d, the present one is %d: add it again", s.ranks, s.epoch, job.Epoch())
	}
	return s.group, nil
}
