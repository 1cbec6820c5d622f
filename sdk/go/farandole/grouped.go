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

// group holds the tensors of a grouped call as C sees them.
type group[T Number] struct {
	terms           C.farandole_go_terms
	inputs, outputs []unsafe.Pointer
	ndims           []C.int32_t
	// Of all tensors, one after the other.
	dims []C.int64_t
}

// groupOf describes the tensors, and pins their memory; outs may be nil. The library copies the description.
func groupOf[T Number](job *Job, pinner *runtime.Pinner, ins, outs [][]T, given []Option) (*group[T], error) {
	terms, err := options[T](job, 0, given)
	if err != nil {
		return nil, err
	}
	if outs != nil && len(ins) != len(outs) {
		return nil, mismatch("a grouped call needs as many outputs as inputs: there are %d inputs and %d outputs", len(ins), len(outs))
	}
	made := &group[T]{terms: terms, inputs: make([]unsafe.Pointer, len(ins)), outputs: make([]unsafe.Pointer, len(ins))}
	shapes, err := shapesOf(len(ins), given)
	if err != nil {
		return nil, err
	}
	for i, in := range ins {
		var out []T
		if outs != nil {
			out = outs[i]
		}
		made.inputs[i], made.outputs[i] = pinned(pinner, in, out)
		single := C.farandole_go_terms{ndim: 1}
		single.shape[0] = C.int64_t(len(in))
		if shapes != nil {
			if err := applyShape(&single, len(in), shapes[i]); err != nil {
				return nil, err
			}
		}
		made.ndims = append(made.ndims, single.ndim)
		made.dims = append(made.dims, single.shape[:single.ndim]...)
	}
	return made, nil
}

// shapesOf gives the shapes that Shapes has given; nil: none.
func shapesOf(tensors int, given []Option) ([][]int, error) {
	for i := range given {
		if given[i].kind != optionShapes {
			continue
		}
		if len(given[i].shapes) != tensors {
			return nil, mismatch("a grouped call has %d tensors, and Shapes gives the shapes of %d", tensors, len(given[i].shapes))
		}
		return given[i].shapes, nil
	}
	return nil, nil
}

func (g *group[T]) requireEqual(what string, ins, outs [][]T) error {
	for i := range ins {
		if err := requireEqual(what, len(ins[i]), len(outs[i])); err != nil {
			return err
		}
	}
	return nil
}

// call has the bridge called with the description, which is pinned for that time.
func (g *group[T]) call(submit func(group *C.farandole_go_group) C.farandole_go_outcome) C.farandole_go_outcome {
	described := C.farandole_go_group{tensors: C.int32_t(len(g.inputs))}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if len(g.inputs) > 0 {
		described.inputs, described.outputs = unsafe.SliceData(g.inputs), unsafe.SliceData(g.outputs)
		described.ndims, described.dims = unsafe.SliceData(g.ndims), unsafe.SliceData(g.dims)
		pinner.Pin(described.inputs)
		pinner.Pin(described.outputs)
		pinner.Pin(described.ndims)
		if described.dims != nil {
			pinner.Pin(described.dims)
		}
	}
	return submit(&described)
}

func (g *group[T]) allreduce(waitMs C.int64_t) C.farandole_go_outcome {
	return g.call(func(described *C.farandole_go_group) C.farandole_go_outcome {
		return C.farandole_go_grouped_allreduce(g.terms, described, waitMs)
	})
}

// launchEach makes the handle of the submissions of a grouped call. Where one is refused, the memory of those before it
// stays pinned until they are complete.
func (j *Job) launchEach(outcome C.farandole_go_outcome, ids []C.farandole_handle, pinner *runtime.Pinner, collect func(C.farandole_handle) error) (*Handle, error) {
	err, accepted := errorOf(outcome), int(outcome.value)
	if err != nil && accepted == 0 {
		pinner.Unpin()
		return nil, err
	}
	handle := &Handle{job: j, id: ids[0], rest: ids[1:accepted], pinner: *pinner}
	if err == nil {
		handle.collect = collect
	}
	j.add(handle)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

// GroupedGatherHandle is a GroupedAllgather under way.
type GroupedGatherHandle[T Number] struct {
	// Handle is done when all results are there.
	*Handle
	results *[]Gathered[T]
}

// Results waits as Handle.Wait does and gives the results, in the order of the tensors; again and again the same.
func (h *GroupedGatherHandle[T]) Results(ctx context.Context) ([]Gathered[T], error) {
	if err := h.Wait(ctx); err != nil {
		return nil, err
	}
	return *h.results, nil
}

func groupedAllgather[T Number](job *Job, ins [][]T, waitMs C.int64_t, given []Option) (*GroupedGatherHandle[T], error) {
	var pinner runtime.Pinner
	tensors, err := groupOf(job, &pinner, ins, nil, given)
	if err != nil {
		pinner.Unpin()
		return nil, err
	}
	ids := make([]C.farandole_handle, len(ins)+1)
	results := make([]Gathered[T], len(ins))
	fetches := make([]func(C.farandole_handle) error, len(ins))
	for i := range results {
		fetches[i] = collector(tensors.terms.group, &results[i])
	}
	outcome := tensors.call(func(described *C.farandole_go_group) C.farandole_go_outcome {
		return C.farandole_go_grouped_allgather(tensors.terms, described, unsafe.SliceData(ids), waitMs)
	})
	collect := func(C.farandole_handle) error {
		for i, fetch := range fetches {
			if err := fetch(ids[i]); err != nil {
				return err
			}
		}
		return nil
	}
	handle, err := job.launchEach(outcome, ids, &pinner, collect)
	if err != nil {
		return nil, err
	}
	return &GroupedGatherHandle[T]{handle, &results}, nil
}

// GroupedAllgatherAsync is GroupedAllgather that returns at once. ins are the library's until the handle is done.
func GroupedAllgatherAsync[T Number](job *Job, ins [][]T, given ...Option) (*GroupedGatherHandle[T], error) {
	job.sweep()
	return groupedAllgather(job, ins, 0, given)
}

// GroupedAllgather is Allgather of several tensors in one call: their results, in their order. All ranks give as many
// tensors, whose shapes are equal but for the first dimension, or each gets ErrMismatch; there may be none. Options: Name,
// In, Shapes. Errors as of Allreduce.
func GroupedAllgather[T Number](ctx context.Context, job *Job, ins [][]T, given ...Option) ([]Gathered[T], error) {
	handle, err := groupedAllgather(job, ins, patience(ctx), given)
	if err != nil {
		return nil, err
	}
	return handle.Results(ctx)
}

func groupedReducescatter[T Number](job *Job, ins, outs [][]T, waitMs C.int64_t, given []Option) (*Handle, error) {
	if outs == nil {
		outs = [][]T{}
	}
	var pinner runtime.Pinner
	tensors, err := groupOf(job, &pinner, ins, outs, given)
	if err == nil {
		err = tensors.requireShares(job, outs)
	}
	if err != nil {
		pinner.Unpin()
		return nil, err
	}
	ids := make([]C.farandole_handle, len(ins)+1)
	outcome := tensors.call(func(described *C.farandole_go_group) C.farandole_go_outcome {
		return C.farandole_go_grouped_reducescatter(tensors.terms, described, unsafe.SliceData(ids), waitMs)
	})
	return job.launchEach(outcome, ids, &pinner, nil)
}

// requireShares checks the outputs of a reducescatter.
func (g *group[T]) requireShares(job *Job, outs [][]T) error {
	dims := g.dims
	for i, ndim := range g.ndims {
		single := g.terms
		single.ndim = ndim
		copy(single.shape[:], dims[:ndim])
		dims = dims[ndim:]
		if err := scattered(job, &single, len(outs[i])); err != nil {
			return err
		}
	}
	return nil
}

// GroupedReducescatter is Reducescatter of several tensors in one call. There are as many outputs as inputs, on all ranks
// alike; there may be none. Options: Name, Reduce (not Adasum), Prescale, Postscale, In, Shapes. Errors as of Allreduce.
func GroupedReducescatter[T Number](ctx context.Context, job *Job, ins, outs [][]T, given ...Option) error {
	handle, err := groupedReducescatter(job, ins, outs, patience(ctx), given)
	if err != nil {
		return err
	}
	return handle.Wait(ctx)
}

// GroupedReducescatterAsync is GroupedReducescatter that returns at once. ins and outs are the library's until the handle is
// done.
func GroupedReducescatterAsync[T Number](job *Job, ins, outs [][]T, given ...Option) (*Handle, error) {
	job.sweep()
	return groupedReducescatter(job, ins, outs, 0, given)
}
