package farandole

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// ReduceOp says how a reduction combines the ranks' elements.
type ReduceOp int32

// The reductions. All ranks get the same bits: ranks' elements are added in the order of ranks, on several hosts first
// within each host.
const (
	// Average divides the sum by the size of the process set; of integers it truncates towards zero. Not of bool.
	Average ReduceOp = 0
	// Sum adds; of bool it is "or".
	Sum ReduceOp = 1
	// Adasum is for Allreduce of one floating-point tensor (arXiv:2006.02924).
	Adasum ReduceOp = 2
	// Min takes the least; of bool it is "and".
	Min ReduceOp = 3
	// Max takes the greatest; of bool it is "or".
	Max ReduceOp = 4
	// Product multiplies; of bool it is "and".
	Product ReduceOp = 5
)

// Option is a choice about one operation. An Option is a value: giving some allocates nothing.
type Option struct {
	kind   optionKind
	text   string
	number float64
	set    *ProcessSet
	// A shape's dimensions: a few beside the number of them, which need no memory of their own, or many.
	ndim   int
	few    [4]int
	many   []int
	shapes [][]int
}

type optionKind uint8

const (
	optionName optionKind = iota + 1
	optionReduce
	optionPrescale
	optionPostscale
	optionSet
	optionShape
	optionShapes
)

// Name identifies the tensor on all ranks: at most 512 bytes of UTF-8. A name may be pending once at a time. Without one,
// operations are paired in the order of their submission, which must be the same on all ranks then.
func Name(name string) Option { return Option{kind: optionName, text: name} }

// Reduce chooses how a reduction combines; without it, by Average.
func Reduce(op ReduceOp) Option { return Option{kind: optionReduce, number: float64(op)} }

// Prescale multiplies each rank's elements by a finite factor before the reduction.
func Prescale(factor float64) Option { return Option{kind: optionPrescale, number: factor} }

// Postscale multiplies the reduction's result by a finite factor.
func Postscale(factor float64) Option { return Option{kind: optionPostscale, number: factor} }

// In has the operation run among the ranks of a process set; without it, among all ranks.
func In(set *ProcessSet) Option { return Option{kind: optionSet, set: set} }

// Shape gives the tensor's shape, of at most 32 dimensions, row by row in memory; without it, [len(data)]. Shape() is that
// of a scalar. Ranks must agree about it, and Allgather, Alltoall and Reducescatter go by the first dimension.
func Shape(dims ...int) Option {
	option := Option{kind: optionShape, ndim: len(dims)}
	if copy(option.few[:], dims) < len(dims) {
		option.many = append(option.many, dims...)
	}
	return option
}

// Shapes gives the shapes of a grouped call's tensors, as Shape does for one; without it, each is [len]. It is borrowed for
// the time of the call.
func Shapes(shapes ...[]int) Option { return Option{kind: optionShapes, shapes: shapes} }

func (o *Option) dims() []int {
	if o.many != nil {
		return o.many
	}
	return o.few[:o.ndim]
}

// options gives the terms of an operation on so many elements of a type.
func options[T Number](job *Job, elements int, given []Option) (C.farandole_go_terms, error) {
	if err := job.check(); err != nil {
		return C.farandole_go_terms{}, err
	}
	count[T](&job.turn, elements)
	terms := C.farandole_go_terms{prescale: 1, postscale: 1, dtype: C.int32_t(dtypeOf[T]()), ndim: 1}
	terms.shape[0] = C.int64_t(elements)
	for i := range given {
		if err := apply(&terms, job, elements, &given[i]); err != nil {
			return terms, err
		}
	}
	return terms, nil
}

func apply(terms *C.farandole_go_terms, job *Job, count int, option *Option) error {
	switch option.kind {
	case optionName:
		if strings.IndexByte(option.text, 0) >= 0 {
			return mismatch("the name %q holds a NUL character", option.text)
		}
		terms.name = (*C.char)(unsafe.Pointer(unsafe.StringData(option.text)))
		terms.name_bytes = C.int64_t(len(option.text))
	case optionReduce:
		terms.reduce_op = C.int32_t(option.number)
	case optionPrescale:
		terms.prescale = C.double(option.number)
	case optionPostscale:
		terms.postscale = C.double(option.number)
	case optionSet:
		group, err := option.set.groupOf(job)
		if err != nil {
			return err
		}
		terms.group = group
	case optionShape:
		return applyShape(terms, count, option.dims())
	}
	return nil
}

func applyShape(terms *C.farandole_go_terms, count int, dims []int) error {
	if len(dims) > len(terms.shape) {
		return mismatch("a tensor has %d dimensions; at most %d are possible", len(dims), len(terms.shape))
	}
	elements := 1
	for i, dim := range dims {
		if dim < 0 {
			return mismatch("the shape %s has a negative dimension", show(dims))
		}
		elements *= dim
		terms.shape[i] = C.int64_t(dim)
	}
	if elements != count {
		return mismatch("the shape %s has %d elements, the slice %d", show(dims), elements, count)
	}
	terms.ndim = C.int32_t(len(dims))
	return nil
}

// show copies, so that the option need not live in the heap.
func show(dims []int) string { return fmt.Sprint(append([]int(nil), dims...)) }

// rowsOf gives the first dimension, and the elements of a row.
func rowsOf(terms *C.farandole_go_terms) (rows, rowElements int) {
	if terms.ndim == 0 {
		return 1, 1
	}
	rowElements = 1
	for _, dim := range terms.shape[1:terms.ndim] {
		rowElements *= int(dim)
	}
	return int(terms.shape[0]), rowElements
}
