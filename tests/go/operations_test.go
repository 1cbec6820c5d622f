package tests

import (
	"errors"
	"fmt"
	"math"

	"farandole.dev/go/farandole"
)

func isKind(err, kind error) bool { return errors.Is(err, kind) }

// checks are those of the suite, in the order in which all ranks run them.
var checks = join(
	elementChecks[uint8](fromInteger[uint8]), elementChecks[int8](fromInteger[int8]),
	elementChecks[uint16](fromInteger[uint16]), elementChecks[int16](fromInteger[int16]),
	elementChecks[int32](fromInteger[int32]), elementChecks[int64](fromInteger[int64]), elementChecks[int](fromInteger[int]),
	elementChecks[float32](fromFloat[float32]), elementChecks[float64](fromFloat[float64]),
	elementChecks(func(value float64) farandole.Float16 { return farandole.ToFloat16(float32(value)) }),
	elementChecks(func(value float64) farandole.BFloat16 { return farandole.ToBFloat16(float32(value)) }),
	elementChecks(func(value float64) farandole.Float8E4M3 { return farandole.ToFloat8E4M3(float32(value)) }),
	elementChecks(func(value float64) farandole.Float8E5M2 { return farandole.ToFloat8E5M2(float32(value)) }),
	operationChecks, groupedChecks, gonumChecks, handleChecks, epochChecks,
)

func join(lists ...[]check) []check {
	var all []check
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func fromInteger[T int8 | uint8 | int16 | uint16 | int32 | int64 | int](value float64) T {
	return T(math.Trunc(value))
}

func fromFloat[T float32 | float64](value float64) T { return T(value) }

// elementChecks are the checks of one element type; of gives its number for a small integer, and rounds as the library does.
func elementChecks[T farandole.Number](of func(float64) T) []check {
	var zero T
	named := func(name string) string { return fmt.Sprintf("%s of %T", name, zero) }
	return []check{
		{named("reductions in every form"), func(r *rank) { reductions(r, of) }},
		{named("broadcast from each root"), func(r *rank) { broadcasts(r, of) }},
		{named("gathers and scatters"), func(r *rank) { gathers(r, of) }},
		{named("gather to and scatter from each root"), func(r *rank) { rootedGathers(r, of) }},
	}
}

// numbers gives a rank's input: small integers that every type has.
func numbers[T any](of func(float64) T, rank, count int) []T {
	made := make([]T, count)
	for i := range made {
		made[i] = of(float64((rank+i)%3 + 1))
	}
	return made
}

// reduced gives what all ranks' numbers come to.
func reduced[T any](of func(float64) T, op farandole.ReduceOp, size, count int) []T {
	made := make([]T, count)
	for i := range made {
		sum, product, least, most := 0.0, 1.0, 4.0, 0.0
		for rank := range size {
			value := float64((rank+i)%3 + 1)
			sum, product, least, most = sum+value, product*value, min(least, value), max(most, value)
		}
		made[i] = of(map[farandole.ReduceOp]float64{
			farandole.Sum: sum, farandole.Average: sum / float64(size), farandole.Product: product,
			farandole.Min: least, farandole.Max: most,
		}[op])
	}
	return made
}

func reductions[T farandole.Number](r *rank, of func(float64) T) {
	const count = 37
	for _, op := range []farandole.ReduceOp{farandole.Average, farandole.Sum, farandole.Min, farandole.Max, farandole.Product} {
		wanted := reduced(of, op, r.job.Size(), count)
		name, reduce := farandole.Name(fmt.Sprintf("reduction/%d", op)), farandole.Reduce(op)
		in, out := numbers(of, r.job.Rank(), count), make([]T, count)
		r.require(farandole.Allreduce(r.ctx, r.job, in, out, name, reduce))
		requireEqual(out, wanted, "sync")
		requireEqual(in, numbers(of, r.job.Rank(), count), "the input of sync")
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, in, name, reduce))
		requireEqual(in, wanted, "in place")

		in, out = numbers(of, r.job.Rank(), count), make([]T, count)
		handle, err := farandole.AllreduceAsync(r.job, in, out, name, reduce)
		r.require(err)
		r.require(handle.Wait(r.ctx))
		requireEqual(out, wanted, "async")
		handle, err = farandole.AllreduceInPlaceAsync(r.job, in, name, reduce)
		r.require(err)
		<-handle.Done()
		r.require(handle.Err())
		requireEqual(in, wanted, "async in place")

		group := [][]T{numbers(of, r.job.Rank(), count), numbers(of, r.job.Rank(), 5)}
		r.require(farandole.GroupedAllreduceInPlace(r.ctx, r.job, group, farandole.Name("group"), reduce))
		requireEqual(group[0], wanted, "grouped, first")
		requireEqual(group[1], wanted[:5], "grouped, second")
		group, outs := [][]T{numbers(of, r.job.Rank(), count), nil}, [][]T{make([]T, count), nil}
		handle, err = farandole.GroupedAllreduceAsync(r.job, group, outs, farandole.Name("group/async"), reduce)
		r.require(err)
		r.require(handle.Wait(r.ctx))
		requireEqual(outs[0], wanted, "grouped async")
	}
}

func broadcasts[T farandole.Number](r *rank, of func(float64) T) {
	for root := range r.job.Size() {
		in, out := numbers(of, r.job.Rank(), 9), make([]T, 9)
		r.require(farandole.Broadcast(r.ctx, r.job, in, out, root, farandole.Shape(3, 3)))
		requireEqual(out, numbers(of, root, 9), "broadcast")
		handle, err := farandole.BroadcastInPlaceAsync(r.job, in, root, farandole.Name("broadcast"))
		r.require(err)
		r.require(handle.Wait(r.ctx))
		requireEqual(in, numbers(of, root, 9), "broadcast in place")
	}
}

func gathers[T farandole.Number](r *rank, of func(float64) T) {
	me, size := r.job.Rank(), r.job.Size()
	// Rank r gives r rows of two.
	var all []T
	var rows []int
	for each := range size {
		all, rows = append(all, numbers(of, each, 2*each)...), append(rows, each)
	}
	found, err := farandole.Allgather(r.ctx, r.job, numbers(of, me, 2*me), farandole.Shape(me, 2))
	r.require(err)
	requireEqual(found.Data, all, "allgather")
	requireEqual(found.Rows, rows, "its rows")

	// Rank r gives r + 1 of its rows to each, and so gets the same rows of each rank.
	splits, mine, given := make([]int, size), []T(nil), numbers(of, me, (me+1)*size)
	for each := range size {
		splits[each] = me + 1
		mine = append(mine, numbers(of, each, (each+1)*size)[me*(each+1):][:each+1]...)
	}
	found, err = farandole.Alltoall(r.ctx, r.job, given, splits)
	r.require(err)
	requireEqual(found.Data, mine, "alltoall")
	pending, err := farandole.AlltoallAsync(r.job, numbers(of, me, size), nil)
	r.require(err)
	found, err = pending.Result(r.ctx)
	r.require(err)
	requireThat(len(found.Data) == size, "alltoall without splits: %d elements, not %d", len(found.Data), size)

	total := 2*size + 1
	before := 0
	for each := range me {
		before += farandole.ScatteredRows(total, each, size)
	}
	out := make([]T, farandole.ScatteredRows(total, me, size))
	r.require(farandole.Reducescatter(r.ctx, r.job, numbers(of, me, total), out, farandole.Reduce(farandole.Sum)))
	requireEqual(out, reduced(of, farandole.Sum, size, total)[before:][:len(out)], "reducescatter")
	handle, err := farandole.ReducescatterAsync(r.job, numbers(of, me, total), out, farandole.Reduce(farandole.Max))
	r.require(err)
	r.require(handle.Wait(r.ctx))
	requireEqual(out, reduced(of, farandole.Max, size, total)[before:][:len(out)], "reducescatter async")
}

func rootedGathers[T farandole.Number](r *rank, of func(float64) T) {
	me, size := r.job.Rank(), r.job.Size()
	for root := range size {
		// Rank r gives r + 1 rows of two.
		mine, shape, name := numbers(of, me, 2*(me+1)), farandole.Shape(me+1, 2), farandole.Name("gather")
		var wanted []T
		for each := range size {
			if me == root {
				wanted = append(wanted, numbers(of, each, 2*(each+1))...)
			}
		}
		found, err := farandole.Gather(r.ctx, r.job, mine, root, shape, name)
		r.require(err)
		requireEqual(found.Data, wanted, "gather")
		pending, err := farandole.GatherAsync(r.job, mine, root, shape, name)
		r.require(err)
		found, err = pending.Result(r.ctx)
		r.require(err)
		requireEqual(found.Data, wanted, "gather async")

		var whole []T
		if me == root {
			whole = numbers(of, root, 2*size+1)
		}
		before := 0
		for each := range me {
			before += farandole.ScatteredRows(2*size+1, each, size)
		}
		wanted = numbers(of, root, 2*size+1)[before:][:farandole.ScatteredRows(2*size+1, me, size)]
		found, err = farandole.Scatter(r.ctx, r.job, whole, root, farandole.Name("scatter"))
		r.require(err)
		requireEqual(found.Data, wanted, "scatter")
		pending, err = farandole.ScatterAsync(r.job, whole, root, farandole.Name("scatter"))
		r.require(err)
		found, err = pending.Result(r.ctx)
		r.require(err)
		requireEqual(found.Data, wanted, "scatter async")
	}
	_, err := farandole.Gather(r.ctx, r.job, numbers(of, me, 1), size)
	requireError(err, farandole.ErrMismatch, fmt.Sprint(size))
}

var operationChecks = []check{
	{"bools are combined by or and and", func(r *rank) {
		for _, op := range []farandole.ReduceOp{farandole.Sum, farandole.Max, farandole.Min, farandole.Product} {
			wanted := op == farandole.Sum || op == farandole.Max || r.job.Size() == 1
			data := []bool{r.job.Rank() == 0}
			r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Name(fmt.Sprint("bool", op)), farandole.Reduce(op)))
			requireThat(data[0] == wanted, "op %d of bools is %v", op, data[0])
		}
		err := farandole.AllreduceInPlace(r.ctx, r.job, []bool{true})
		requireError(err, farandole.ErrMismatch, "average")
	}},
	{"factors scale before and after", func(r *rank) {
		data := []float64{float64(r.job.Rank() + 1)}
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Reduce(farandole.Max), farandole.Prescale(-2), farandole.Postscale(10)))
		requireEqual(data, []float64{-20}, "the greatest of -2 * (rank + 1), times 10")
	}},
	{"adasum of equal vectors is that vector", func(r *rank) {
		data := []float32{3, 4}
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Reduce(farandole.Adasum)))
		requireThat(math.Abs(float64(data[0])-3) < 1e-5 && math.Abs(float64(data[1])-4) < 1e-5, "adasum gives %v", data)
	}},
	{"scalars and slices without elements travel", func(r *rank) {
		data := []int64{1}
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Shape(), farandole.Reduce(farandole.Sum)))
		requireEqual(data, []int64{int64(r.job.Size())}, "the sum of ones")
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, []float32(nil)))
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data[:0], farandole.Shape(3, 0)))
	}},
	{"a large tensor is as a small one", func(r *rank) {
		data := make([]float32, 1<<20)
		for i := range data {
			data[i] = float32(i%7 + r.job.Rank())
		}
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Name("large"), farandole.Reduce(farandole.Sum)))
		size := r.job.Size()
		for i := range data {
			requireThat(data[i] == float32(i%7*size+size*(size-1)/2), "element %d is %v", i, data[i])
		}
	}},
	{"calls that are wrong on this rank are refused in a sentence", func(r *rank) {
		call := func(in, out []float32, given ...farandole.Option) error {
			return farandole.Allreduce(r.ctx, r.job, in, out, given...)
		}
		requireError(call(make([]float32, 2), make([]float32, 3)), farandole.ErrMismatch, "in has 2 elements, out has 3")
		requireError(call(make([]float32, 2), make([]float32, 2), farandole.Shape(3)), farandole.ErrMismatch, "[3] has 3 elements, the slice 2")
		requireError(call(make([]float32, 2), make([]float32, 2), farandole.Shape(-1, -2)), farandole.ErrMismatch, "negative")
		requireError(call(nil, nil, farandole.Name("a\x00b")), farandole.ErrMismatch, "NUL")
		requireError(call(nil, nil, farandole.Name("gr\xf6\xdf")), farandole.ErrMismatch, `"gr\xf6\xdf" is not UTF-8`)
		requireError(call(nil, nil, farandole.In(nil)), farandole.ErrMismatch, "nil")
		requireError(call(nil, nil, farandole.Reduce(77)), farandole.ErrMismatch, "77")
		requireError(call(nil, nil, farandole.Prescale(math.Inf(1))), farandole.ErrMismatch)
		_, err := farandole.Alltoall(r.ctx, r.job, make([]int32, 1), make([]int, r.job.Size()+1))
		requireError(err, farandole.ErrMismatch, fmt.Sprint(r.job.Size()+1))
		err = farandole.Reducescatter(r.ctx, r.job, make([]float32, 64), make([]float32, 65))
		requireError(err, farandole.ErrMismatch, "out has")
		err = farandole.BroadcastInPlace(r.ctx, r.job, make([]float32, 1), r.job.Size())
		requireError(err, farandole.ErrMismatch, fmt.Sprint(r.job.Size()))
	}},
	{"ranks that disagree are named with both values, and the job goes on", func(r *rank) {
		if r.job.Size() == 1 {
			return
		}
		count := 4 + min(r.job.Rank(), 1)
		err := farandole.AllreduceInPlace(r.ctx, r.job, make([]float32, count), farandole.Name("disagreement"))
		requireError(err, farandole.ErrMismatch, "disagreement: rank 0 has shape [4], rank 1 has shape [5]")
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, make([]float32, 4), farandole.Name("disagreement")))
	}},
	{"a rank that has joined takes part until all have", func(r *rank) {
		for range r.job.Rank() {
			data := []float32{1}
			r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.Name("uneven"), farandole.Reduce(farandole.Sum)))
			requireThat(data[0] >= 1 && data[0] <= float32(r.job.Size()), "the sum is %v", data[0])
		}
		last, err := farandole.Join(r.ctx, r.job)
		r.require(err)
		requireThat(last >= 0 && last < r.job.Size(), "rank %d was the last to join", last)
	}},
	{"a barrier waits for all", func(r *rank) {
		r.require(farandole.Barrier(r.ctx, r.job))
		handle, err := farandole.BarrierAsync(r.job, farandole.Name("barrier"))
		r.require(err)
		r.require(handle.Wait(r.ctx))
	}},
	{"process sets run among themselves", func(r *rank) {
		if r.job.Size() == 1 {
			return
		}
		set, err := r.job.AddProcessSet(r.ctx, 1, 0)
		r.require(err)
		requireEqual(set.Ranks(), []int{0, 1}, "its ranks")
		var late *farandole.GatherHandle[int32]
		var lateGroup *farandole.GroupedGatherHandle[int32]
		if set.Includes() {
			requireThat(set.Size() == 2 && set.Rank() == r.job.Rank(), "rank %d of %d", set.Rank(), set.Size())
			data := []int32{int32(r.job.Rank() + 1)}
			r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, farandole.In(set), farandole.Reduce(farandole.Sum)))
			requireEqual(data, []int32{3}, "the sum of the set")
			found, err := farandole.Allgather(r.ctx, r.job, data, farandole.In(set))
			r.require(err)
			requireEqual(found.Rows, []int{1, 1}, "the rows of the set")
			late, err = farandole.AllgatherAsync(r.job, data, farandole.In(set), farandole.Name("late"))
			r.require(err)
			lateGroup, err = farandole.GroupedAllgatherAsync(r.job, [][]int32{data, data}, farandole.In(set), farandole.Name("late group"))
			r.require(err)
		}
		// Until it is complete.
		for err = set.Remove(r.ctx); err != nil; err = set.Remove(r.ctx) {
			requireError(err, farandole.ErrNotRunning, "pending")
		}
		if late != nil {
			found, err := late.Result(r.ctx)
			r.require(err)
			requireEqual(found.Rows, []int{1, 1}, "the rows of a set that was removed")
			all, err := lateGroup.Results(r.ctx)
			r.require(err)
			for _, found := range all {
				requireEqual(found.Rows, []int{1, 1}, "the rows of a group in a set that was removed")
				requireEqual(found.Data, []int32{3, 3}, "its data")
			}
		}
		requireError(set.Remove(r.ctx), farandole.ErrMismatch)
		_, err = r.job.AddProcessSet(r.ctx, 0, r.job.Size())
		requireError(err, farandole.ErrMismatch, fmt.Sprint(r.job.Size()))
	}},
}
