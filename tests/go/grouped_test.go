package tests

import (
	"fmt"
	"runtime"
	"strings"

	"farandole.dev/go/farandole"
)

// groupedInput gives the tensors of a rank's grouped call: rows of two that say who has given them, one row of three, and
// one that is empty.
func groupedInput(rank int) (tensors [][]float32, shapes farandole.Option) {
	rows := make([]float32, 2*(rank+1))
	for i := range rows {
		rows[i] = float32(rank)
	}
	return [][]float32{rows, {1, 2, float32(rank)}, nil}, farandole.Shapes([]int{rank + 1, 2}, []int{1, 3}, []int{0, 5})
}

func requireGathered(size int, found []farandole.Gathered[float32]) {
	requireThat(len(found) == 3, "there are %d results, not 3", len(found))
	var rows, triples []float32
	var counts []int
	for each := range size {
		tensors, _ := groupedInput(each)
		rows, triples, counts = append(rows, tensors[0]...), append(triples, tensors[1]...), append(counts, each+1)
	}
	requireEqual(found[0].Data, rows, "the first tensor's rows")
	requireEqual(found[0].Rows, counts, "their numbers")
	requireEqual(found[1].Data, triples, "the second tensor's rows")
	requireEqual(found[2].Data, nil, "the empty tensor's rows")
}

var groupedChecks = []check{
	{"a grouped allgather brings the rows of each tensor", func(r *rank) {
		tensors, shapes := groupedInput(r.job.Rank())
		for _, name := range []string{"grouped gather", "", strings.Repeat("long", 100)} {
			found, err := farandole.GroupedAllgather(r.ctx, r.job, tensors, shapes, farandole.Name(name))
			r.require(err)
			requireGathered(r.job.Size(), found)
			pending, err := farandole.GroupedAllgatherAsync(r.job, tensors, shapes, farandole.Name(name))
			r.require(err)
			<-pending.Done()
			r.require(pending.Err())
			for range 2 {
				found, err = pending.Results(r.ctx)
				r.require(err)
				requireGathered(r.job.Size(), found)
			}
		}
	}},
	{"the memory of a grouped call that nobody waits for stays its own", func(r *rank) {
		for range 20 {
			tensors, shapes := groupedInput(r.job.Rank())
			_, err := farandole.GroupedAllgatherAsync(r.job, tensors, shapes)
			r.require(err)
			runtime.GC()
		}
		r.require(farandole.Barrier(r.ctx, r.job))
	}},
	{"a grouped reducescatter gives each rank its part of each tensor", func(r *rank) {
		me, size := r.job.Rank(), r.job.Size()
		rows := 2*size + 1
		own := farandole.ScatteredRows(rows, me, size)
		first, second := make([]float64, 3*rows), make([]float64, size)
		for i := range first {
			first[i] = float64(i / 3)
		}
		before := 0
		for each := range me {
			before += farandole.ScatteredRows(rows, each, size)
		}
		wanted := make([]float64, 3*own)
		for i := range wanted {
			wanted[i] = float64((before + i/3) * size)
		}
		outs := [][]float64{make([]float64, 3*own), make([]float64, 1)}
		given := []farandole.Option{farandole.Reduce(farandole.Sum), farandole.Shapes([]int{rows, 3}, []int{size}), farandole.Name("parts")}
		r.require(farandole.GroupedReducescatter(r.ctx, r.job, [][]float64{first, second}, outs, given...))
		requireEqual(outs[0], wanted, "the first part")
		clear(outs[0])
		handle, err := farandole.GroupedReducescatterAsync(r.job, [][]float64{first, second}, outs, given...)
		r.require(err)
		r.require(handle.Wait(r.ctx))
		requireEqual(outs[0], wanted, "the first part, async")
		requireEqual(outs[1], []float64{0}, "the second part")
	}},
	{"a grouped allreduce takes tensors of several shapes", func(r *rank) {
		data := [][]float32{{1, 2, 3, 4}, {5}}
		r.require(farandole.GroupedAllreduceInPlace(r.ctx, r.job, data, farandole.Shapes([]int{2, 2}, nil)))
		requireEqual(data[0], []float32{1, 2, 3, 4}, "the average of equal tensors")
	}},
	{"grouped calls without tensors are allowed", func(r *rank) {
		found, err := farandole.GroupedAllgather[float32](r.ctx, r.job, nil)
		r.require(err)
		requireThat(len(found) == 0, "there are %d results", len(found))
		r.require(farandole.GroupedReducescatter[float32](r.ctx, r.job, nil, nil))
		r.require(farandole.GroupedAllreduceInPlace[float32](r.ctx, r.job, nil))
	}},
	{"grouped calls that differ between ranks name both values, and the job goes on", func(r *rank) {
		size := r.job.Size()
		if size == 1 {
			return
		}
		isLast, last := r.job.Rank() == size-1, fmt.Sprintf("rank %d has", size-1)
		for _, name := range []string{"differ", ""} {
			for _, other := range []int{0, 1, 3} {
				count := 2
				if isLast {
					count = other
				}
				ins, outs := make([][]float32, count), make([][]float32, count)
				for i := range ins {
					ins[i], outs[i] = make([]float32, size), make([]float32, 1)
				}
				wanted := fmt.Sprintf("%s %d grouped tensor", last, other)
				_, err := farandole.GroupedAllgather(r.ctx, r.job, ins, farandole.Name(name))
				requireError(err, farandole.ErrMismatch, "rank 0 has 2 grouped tensors", wanted)
				err = farandole.GroupedReducescatter(r.ctx, r.job, ins, outs, farandole.Name(name))
				requireError(err, farandole.ErrMismatch, "rank 0 has 2 grouped tensors", wanted)
				err = farandole.GroupedAllreduceInPlace(r.ctx, r.job, ins, farandole.Name(name))
				requireError(err, farandole.ErrMismatch, "rank 0 has 2 grouped tensors", wanted)
			}
		}
		tensors, shapes := groupedInput(r.job.Rank())
		found, err := farandole.GroupedAllgather(r.ctx, r.job, tensors, shapes, farandole.Name("differ"))
		r.require(err)
		requireGathered(size, found)
	}},
	{"grouped calls that are wrong on this rank are refused in a sentence", func(r *rank) {
		ins := [][]float32{make([]float32, r.job.Size()), make([]float32, r.job.Size())}
		err := farandole.GroupedReducescatter(r.ctx, r.job, ins, [][]float32{{1}})
		requireError(err, farandole.ErrMismatch, "2 inputs and 1 outputs")
		err = farandole.GroupedReducescatter(r.ctx, r.job, ins, [][]float32{{1}, {1, 2}})
		requireError(err, farandole.ErrMismatch, "1 elements, but out has 2")
		_, err = farandole.GroupedAllgather(r.ctx, r.job, ins, farandole.Shapes([]int{1}))
		requireError(err, farandole.ErrMismatch, "2 tensors", "shapes of 1")
		_, err = farandole.GroupedAllgather(r.ctx, r.job, ins, farandole.Shapes([]int{7, 9}, []int{r.job.Size()}))
		requireError(err, farandole.ErrMismatch, "[7 9] has 63 elements")
		r.require(farandole.Barrier(r.ctx, r.job))
	}},
}
