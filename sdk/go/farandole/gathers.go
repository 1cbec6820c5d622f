package farandole

/*
#include "bridge.h"
*/
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Gathered is the result of an Allgather, Alltoall, Gather or Scatter.
type Gathered[T Number] struct {
	// Data has the rows that this rank got, one giving rank after the other in the order of the process set.
	Data []T
	// Rows has the number of rows that each rank of the process set gave.
	Rows []int
}

// GatherHandle is an Allgather, Alltoall, Gather or Scatter under way.
type GatherHandle[T Number] struct {
	// Handle is done when the result is there.
	*Handle
	result *Gathered[T]
}

// Result waits as Handle.Wait does and gives the result; again and again the same.
func (h *GatherHandle[T]) Result(ctx context.Context) (Gathered[T], error) {
	if err := h.Wait(ctx); err != nil {
		return Gathered[T]{}, err
	}
	return *h.result, nil
}

// collector gives the function that fetches a result into `result`. To be called before the submission: the group may be
// removed before its result is fetched.
func collector[T Number](group C.int32_t, result *Gathered[T]) func(C.farandole_handle) error {
	ranks := max(int(C.farandole_go_group_size(group).value), 0)
	return func(id C.farandole_handle) error {
		rows := make([]C.int64_t, ranks+1)
		outcome := C.farandole_go_result(id, unsafe.SliceData(rows))
		if err := errorOf(outcome); err != nil {
			return err
		}
		result.Data = make([]T, int(outcome.value)/sizeOf[T]())
		result.Rows = make([]int, ranks)
		for i := range result.Rows {
			result.Rows[i] = int(rows[i])
		}
		if len(result.Data) == 0 {
			return nil
		}
		return errorOf(C.farandole_go_copy_result(id, address(result.Data)))
	}
}

// AllgatherAsync is Allgather that returns at once. in is the library's until the handle is done.
func AllgatherAsync[T Number](job *Job, in []T, given ...Option) (*GatherHandle[T], error) {
	job.sweep()
	return allgather(job, in, 0, given)
}

func allgather[T Number](job *Job, in []T, waitMs C.int64_t, given []Option) (*GatherHandle[T], error) {
	terms, err := options[T](job, len(in), given)
	if err != nil {
		return nil, err
	}
	result := &Gathered[T]{}
	collect := collector(terms.group, result)
	var pinner runtime.Pinner
	input, _ := pinned(&pinner, in, nil)
	handle, err := job.launch(C.farandole_go_allgather(terms, input, waitMs), &pinner, collect)
	if err != nil {
		return nil, err
	}
	return &GatherHandle[T]{handle, result}, nil
}

// Allgather concatenates the ranks' slices along the first dimension, in which they may differ (0 too). Options: Name, In,
// Shape; a scalar counts as [1]. Errors as of Allreduce.
func Allgather[T Number](ctx context.Context, job *Job, in []T, given ...Option) (Gathered[T], error) {
	handle, err := allgather(job, in, patience(ctx), given)
	if err != nil {
		return Gathered[T]{}, err
	}
	return handle.Result(ctx)
}

// AlltoallAsync is Alltoall that returns at once. in is the library's until the handle is done.
func AlltoallAsync[T Number](job *Job, in []T, splits []int, given ...Option) (*GatherHandle[T], error) {
	job.sweep()
	return alltoall(job, in, splits, 0, given)
}

func alltoall[T Number](job *Job, in []T, splits []int, waitMs C.int64_t, given []Option) (*GatherHandle[T], error) {
	terms, err := options[T](job, len(in), given)
	if err != nil {
		return nil, err
	}
	var numbers []C.int64_t
	for _, split := range splits {
		numbers = append(numbers, C.int64_t(split))
	}
	result := &Gathered[T]{}
	collect := collector(terms.group, result)
	var pinner runtime.Pinner
	input, _ := pinned(&pinner, in, nil)
	outcome := C.farandole_go_alltoall(terms, input, unsafe.SliceData(numbers), C.int32_t(len(numbers)), waitMs)
	handle, err := job.launch(outcome, &pinner, collect)
	if err != nil {
		return nil, err
	}
	return &GatherHandle[T]{handle, result}, nil
}

// Alltoall gives each rank of the process set some of this rank's rows (first dimension): the first splits[0] of them to
// its rank 0, the next splits[1] to rank 1, and so on. splits has one number for each rank and may leave rows out; nil:
// all get equally many. The result has what this rank got, in the order of the ranks that it comes from. Options: Name, In,
// Shape. Errors as of Allreduce; ErrMismatch also where splits take more rows than there are.
func Alltoall[T Number](ctx context.Context, job *Job, in []T, splits []int, given ...Option) (Gathered[T], error) {
	handle, err := alltoall(job, in, splits, patience(ctx), given)
	if err != nil {
		return Gathered[T]{}, err
	}
	return handle.Result(ctx)
}

// submission is a call of the bridge for a tensor with a root.
type submission func(terms C.farandole_go_terms, input unsafe.Pointer) C.farandole_go_outcome

func rooted[T Number](job *Job, in []T, given []Option, submit submission) (*GatherHandle[T], error) {
	terms, err := options[T](job, len(in), given)
	if err != nil {
		return nil, err
	}
	result := &Gathered[T]{}
	collect := collector(terms.group, result)
	var pinner runtime.Pinner
	input, _ := pinned(&pinner, in, nil)
	handle, err := job.launch(submit(terms, input), &pinner, collect)
	if err != nil {
		return nil, err
	}
	return &GatherHandle[T]{handle, result}, nil
}

func gather[T Number](job *Job, in []T, root int, waitMs C.int64_t, given []Option) (*GatherHandle[T], error) {
	return rooted(job, in, given, func(terms C.farandole_go_terms, input unsafe.Pointer) C.farandole_go_outcome {
		return C.farandole_go_gather(terms, input, int32Of(root), waitMs)
	})
}

func scatter[T Number](job *Job, in []T, root int, waitMs C.int64_t, given []Option) (*GatherHandle[T], error) {
	return rooted(job, in, given, func(terms C.farandole_go_terms, input unsafe.Pointer) C.farandole_go_outcome {
		return C.farandole_go_scatter(terms, input, int32Of(root), waitMs)
	})
}

// GatherAsync is Gather that returns at once. in is the library's until the handle is done.
func GatherAsync[T Number](job *Job, in []T, root int, given ...Option) (*GatherHandle[T], error) {
	job.sweep()
	return gather(job, in, root, 0, given)
}

// Gather is Allgather whose result only the root gets; the others get no rows. root is a rank of the job, also within a
// process set. Options: Name, In, Shape. Errors as of Allreduce; ErrMismatch also where root is not in the set.
func Gather[T Number](ctx context.Context, job *Job, in []T, root int, given ...Option) (Gathered[T], error) {
	handle, err := gather(job, in, root, patience(ctx), given)
	if err != nil {
		return Gathered[T]{}, err
	}
	return handle.Result(ctx)
}

// ScatterAsync is Scatter that returns at once. in is the library's until the handle is done.
func ScatterAsync[T Number](job *Job, in []T, root int, given ...Option) (*GatherHandle[T], error) {
	job.sweep()
	return scatter(job, in, root, 0, given)
}

// Scatter gives each rank of the process set its part of the root's rows (first dimension): ScatteredRows of them, in the
// order of the ranks. The other ranks' slices have the root's element type and shape except for the first dimension,
// which may be 0; their elements do not count. root is a rank of the job, also within a process set. Options: Name, In,
// Shape, not that of a scalar. Errors as of Allreduce; ErrMismatch also where root is not in the set.
func Scatter[T Number](ctx context.Context, job *Job, in []T, root int, given ...Option) (Gathered[T], error) {
	handle, err := scatter(job, in, root, patience(ctx), given)
	if err != nil {
		return Gathered[T]{}, err
	}
	return handle.Result(ctx)
}
