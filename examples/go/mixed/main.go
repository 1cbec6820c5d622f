// Mixed is a rank in Go of a job whose ranks are written in several languages: see README.md in examples/mixed.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log"

	"farandole.dev/go/farandole"
)

const count = 1000

// fingerprint is FNV-1a over the bytes: equal to the bit, or not.
func fingerprint(values []float32) uint64 {
	found := fnv.New64a()
	_ = binary.Write(found, binary.LittleEndian, values)
	return found.Sum64()
}

func run(ctx context.Context, job *farandole.Job) error {
	rank, gradient := job.Rank(), make([]float32, count)
	for i := range gradient {
		gradient[i] = float32((37*i+11*rank)%1000) / 7
	}
	if err := farandole.AllreduceInPlace(ctx, job, gradient, farandole.Name("gradient"), farandole.Reduce(farandole.Sum)); err != nil {
		return err
	}
	fromLast := []int64{int64(100 + rank)}
	if err := farandole.BroadcastInPlace(ctx, job, fromLast, job.Size()-1, farandole.Name("from last")); err != nil {
		return err
	}
	mine := make([]int32, 2*(rank+1))
	for i := range mine {
		mine[i] = int32(rank)
	}
	rows, err := farandole.Allgather(ctx, job, mine, farandole.Name("rows"), farandole.Shape(rank+1, 2))
	if err != nil {
		return err
	}
	refused := farandole.AllreduceInPlace(ctx, job, make([]float64, 2+rank), farandole.Name("disagreement"))
	if refused == nil {
		refused = errors.New("nobody disagrees")
	} else if !errors.Is(refused, farandole.ErrMismatch) {
		return refused
	}
	if err := farandole.AllreduceInPlace(ctx, job, make([]float64, 2), farandole.Name("disagreement")); err != nil {
		return err
	}
	fmt.Printf("Go: gradient %016x, from last %d, rows %d, %v\n", fingerprint(gradient), fromLast[0], len(rows.Data)/2, refused)
	return nil
}

func main() {
	if err := farandole.Run(context.Background(), farandole.Options{}, run); err != nil {
		log.Fatal(err)
	}
}
