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

// finish ends a submission that was waited for: it goes on waiting where the operation is still pending. The memory stays
// pinned, and the library's, where the context ends before.
func (j *Job) finish(ctx context.Context, outcome C.farandole_go_outcome, pinner *runtime.Pinner) error {
	if outcome.code != C.FARANDOLE_STILL_PENDING {
		pinner.Unpin()
		return errorOf(outcome)
	}
	return j.start(C.farandole_go_outcome{value: outcome.value}, pinner, nil).Wait(ctx)
}

// start makes the handle of an accepted submission.
func (j *Job) start(outcome C.farandole_go_outcome, pinner *runtime.Pinner, collect func(C.farandole_handle) error) *Handle {
	handle := &Handle{job: j, id: C.farandole_handle(outcome.value), collect: collect, pinner: *pinner}
	j.add(handle)
	return handle
}

// launch makes the handle of a submission, or gives why it was refused.
func (j *Job) launch(outcome C.farandole_go_outcome, pinner *runtime.Pinner, collect func(C.farandole_handle) error) (*Handle, error) {
	if err := errorOf(outcome); err != nil {
		pinner.Unpin()
		return nil, err
	}
	return j.start(outcome, pinner, collect), nil
}

// patience gives for how long a submission waits inside the library before Go looks at the context.
func patience(ctx context.Context) C.int64_t {
	if ctx.Done() == nil {
		return forever
	}
	return surfaceMs
}

// pinned pins the memory of slices and gives their addresses. The library may then keep them: Go does not move or reuse
// the memory until Unpin.
func pinned[T Number](pinner *runtime.Pinner, in, out []T) (input, output unsafe.Pointer) {
	if len(in) > 0 {
		input = address(in)
		pinner.Pin(input)
	}
	if len(out) > 0 {
		if output = address(out); output != input {
			pinner.Pin(output)
		}
	}
	return input, output
}

func requireEqual(what string, in, out int) error {
	if in == out {
		return nil
	}
	return mismatch("%s needs an output of the input's size: in has %d elements, out has %d", what, in, out)
}

// Allreduce computes out = postscale * reduce over ranks (prescale * in), equal to the bit on all ranks. in and out have
// the same length, on all ranks, and may be the same slice; they must not overlap otherwise. Options: Name, Reduce,
// Prescale, Postscale, In, Shape. In the steady state it allocates nothing.
//
// ErrMismatch: this call was wrong, or ranks disagree about it (the sentence names two ranks and both values); the job goes
// on. ErrEpochEnded: a worker has died or left. The context's error: it has ended; the operation goes on, and in and out
// are the library's until it is complete or the epoch ends.
func Allreduce[T Number](ctx context.Context, job *Job, in, out []T, given ...Option) error {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = requireEqual("Allreduce", len(in), len(out))
	}
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.finish(ctx, C.farandole_go_allreduce(terms, input, output, patience(ctx)), &pinner)
}

// AllreduceInPlace is Allreduce whose output takes the input's place.
func AllreduceInPlace[T Number](ctx context.Context, job *Job, data []T, given ...Option) error {
	return Allreduce(ctx, job, data, data, given...)
}

// AllreduceAsync is Allreduce that returns at once. in and out are the library's until the handle is done.
func AllreduceAsync[T Number](job *Job, in, out []T, given ...Option) (*Handle, error) {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = requireEqual("AllreduceAsync", len(in), len(out))
	}
	if err != nil {
		return nil, err
	}
	job.sweep()
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.launch(C.farandole_go_allreduce(terms, input, output, 0), &pinner, nil)
}

// AllreduceInPlaceAsync is AllreduceInPlace that returns at once.
func AllreduceInPlaceAsync[T Number](job *Job, data []T, given ...Option) (*Handle, error) {
	return AllreduceAsync(job, data, data, given...)
}

// GroupedAllreduce is Allreduce for several tensors as one: all are reduced together, or none. All ranks give as many
// tensors; there may be none. Options: Name, Reduce (not Adasum), Prescale, Postscale, In, Shapes. It allocates the list of
// the tensors.
func GroupedAllreduce[T Number](ctx context.Context, job *Job, ins, outs [][]T, given ...Option) error {
	var pinner runtime.Pinner
	tensors, err := groupOf(job, &pinner, ins, outs, given)
	if err == nil {
		err = tensors.requireEqual("GroupedAllreduce", ins, outs)
	}
	if err != nil {
		pinner.Unpin()
		return err
	}
	return job.finish(ctx, tensors.allreduce(patience(ctx)), &pinner)
}

// GroupedAllreduceInPlace is GroupedAllreduce whose outputs take the inputs' places.
func GroupedAllreduceInPlace[T Number](ctx context.Context, job *Job, data [][]T, given ...Option) error {
	return GroupedAllreduce(ctx, job, data, data, given...)
}

// GroupedAllreduceAsync is GroupedAllreduce that returns at once.
func GroupedAllreduceAsync[T Number](job *Job, ins, outs [][]T, given ...Option) (*Handle, error) {
	job.sweep()
	var pinner runtime.Pinner
	tensors, err := groupOf(job, &pinner, ins, outs, given)
	if err == nil {
		err = tensors.requireEqual("GroupedAllreduceAsync", ins, outs)
	}
	if err != nil {
		pinner.Unpin()
		return nil, err
	}
	return job.launch(tensors.allreduce(0), &pinner, nil)
}

// GroupedAllreduceInPlaceAsync is GroupedAllreduceInPlace that returns at once.
func GroupedAllreduceInPlaceAsync[T Number](job *Job, data [][]T, given ...Option) (*Handle, error) {
	return GroupedAllreduceAsync(job, data, data, given...)
}

// Broadcast gives the elements of the root's in to out on every rank. root is a rank of the job, also within a process
// set. in and out have the same length, on all ranks, and may be the same slice. Options: Name, In, Shape. Errors as of
// Allreduce.
func Broadcast[T Number](ctx context.Context, job *Job, in, out []T, root int, given ...Option) error {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = requireEqual("Broadcast", len(in), len(out))
	}
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.finish(ctx, C.farandole_go_broadcast(terms, input, output, int32Of(root), patience(ctx)), &pinner)
}

// BroadcastInPlace is Broadcast whose output takes the input's place.
func BroadcastInPlace[T Number](ctx context.Context, job *Job, data []T, root int, given ...Option) error {
	return Broadcast(ctx, job, data, data, root, given...)
}

// BroadcastAsync is Broadcast that returns at once.
func BroadcastAsync[T Number](job *Job, in, out []T, root int, given ...Option) (*Handle, error) {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = requireEqual("BroadcastAsync", len(in), len(out))
	}
	if err != nil {
		return nil, err
	}
	job.sweep()
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.launch(C.farandole_go_broadcast(terms, input, output, int32Of(root), 0), &pinner, nil)
}

// BroadcastInPlaceAsync is BroadcastInPlace that returns at once.
func BroadcastInPlaceAsync[T Number](job *Job, data []T, root int, given ...Option) (*Handle, error) {
	return BroadcastAsync(job, data, data, root, given...)
}

// ScatteredRows gives how many of so many rows Reducescatter gives to a position of so many ranks: rows / size, and the
// first rows % size positions one more.
func ScatteredRows(rows, position, size int) int {
	if position < rows%size {
		return rows/size + 1
	}
	return rows / size
}

// scattered checks the output of a reducescatter.
func scattered(job *Job, terms *C.farandole_go_terms, out int) error {
	position := int(C.farandole_go_group_rank(terms.group).value)
	size := int(C.farandole_go_group_size(terms.group).value)
	if terms.ndim == 0 || position < 0 || size <= 0 {
		return nil // the library says what is wrong
	}
	rows, rowElements := rowsOf(terms)
	if wanted := ScatteredRows(rows, position, size) * rowElements; wanted != out {
		return mismatch("Reducescatter of %d rows gives rank %d of %d ranks %d elements, but out has %d",
			rows, position, size, wanted, out)
	}
	return nil
}

// Reducescatter reduces as Allreduce does, and gives each rank its part of the rows (first dimension): see ScatteredRows.
// out has room for exactly that part, and does not overlap in. Options: Name, Reduce (not Adasum), Prescale, Postscale, In,
// Shape. Errors as of Allreduce.
func Reducescatter[T Number](ctx context.Context, job *Job, in, out []T, given ...Option) error {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = scattered(job, &terms, len(out))
	}
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.finish(ctx, C.farandole_go_reducescatter(terms, input, output, patience(ctx)), &pinner)
}

// ReducescatterAsync is Reducescatter that returns at once.
func ReducescatterAsync[T Number](job *Job, in, out []T, given ...Option) (*Handle, error) {
	terms, err := options[T](job, len(in), given)
	if err == nil {
		err = scattered(job, &terms, len(out))
	}
	if err != nil {
		return nil, err
	}
	job.sweep()
	var pinner runtime.Pinner
	input, output := pinned(&pinner, in, out)
	return job.launch(C.farandole_go_reducescatter(terms, input, output, 0), &pinner, nil)
}

// Barrier returns when all ranks have called it. Options: Name, In. ErrEpochEnded: a worker has died or left.
func Barrier(ctx context.Context, job *Job, given ...Option) error {
	terms, err := options[uint8](job, 0, given)
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	return job.finish(ctx, C.farandole_go_barrier(terms, patience(ctx)), &pinner)
}

// BarrierAsync is Barrier that returns at once; the handle is done when all ranks have called it.
func BarrierAsync(job *Job, given ...Option) (*Handle, error) {
	terms, err := options[uint8](job, 0, given)
	if err != nil {
		return nil, err
	}
	job.sweep()
	var pinner runtime.Pinner
	return job.launch(C.farandole_go_barrier(terms, 0), &pinner, nil)
}

// Join says that this rank has no more data, takes part in what the others submit until all have joined, and returns the
// rank that was the last to join. To a reduction this rank then contributes what changes nothing (Average still divides by
// the size of the set), to Allgather and Alltoall no rows; a Broadcast from it is ErrMismatch on all ranks.
func Join(ctx context.Context, job *Job) (last int, err error) {
	if err := job.check(); err != nil {
		return 0, err
	}
	var pinner runtime.Pinner
	found := new(C.int32_t)
	pinner.Pin(found)
	handle, err := job.launch(C.farandole_go_join(found), &pinner, nil)
	if err == nil {
		err = handle.Wait(ctx)
	}
	if err != nil {
		return 0, err
	}
	return int(*found), nil
}
