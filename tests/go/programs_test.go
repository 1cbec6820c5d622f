package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"farandole.dev/go/farandole"
)

// Jobs of these last until there is a file of this name in the test's folder.
const stopFile = "stop"

// The exit code of a rank that ends because an operation failed.
const endedByError = 3

func init() {
	programs["stepping"] = stepping
	programs["elastic"] = elasticStepping
	programs["deserting"] = deserting
	programs["failing"] = failing
	programs["departing"] = departing
}

// failing has rank 1 say why it fails, in words of Latin-1; the others wait for it.
func failing(string) int {
	ctx := context.Background()
	err := farandole.Run(ctx, farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		if job.Rank() == 1 {
			return errors.New("bad \xf6\xdf words" + strings.Repeat("\u00f6", 500))
		}
		err := farandole.AllreduceInPlace(ctx, job, []float64{1}, farandole.Name("awaited"))
		fmt.Printf("rank %d hears: %v\n", job.Rank(), err)
		return err
	})
	if err != nil {
		return endedByError
	}
	return 0
}

// departing has rank 1 of an elastic job tell that it is to end, in words of Latin-1; all ranks wait until they are told.
func departing(string) int {
	ctx := context.Background()
	err := farandole.Run(ctx, farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		if job.Rank() == 1 {
			if err := job.Depart(time.Minute, "bad \xf6\xdf words"); err != nil {
				return err
			}
		}
		for isTold := []bool{false}; !isTold[0]; {
			change, err := job.Change()
			if err != nil {
				return err
			}
			if isTold[0] = change.Serial != 0; isTold[0] {
				fmt.Printf("rank %d is told: %s\n", job.Rank(), change.Sentence)
			}
			if err := farandole.AllreduceInPlace(ctx, job, isTold, farandole.Name("all are told"), farandole.Reduce(farandole.Min)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return endedByError
	}
	return 0
}

// deserting has rank 0 end its goroutine within Run, as t.FailNow does; the others wait for it.
func deserting(string) int {
	code := make(chan int, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				fmt.Printf("panic: %v\n", cause)
			}
			code <- endedByError
		}()
		_ = farandole.Run(context.Background(), farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
			if job.Rank() == 0 {
				runtime.Goexit()
			}
			err := farandole.AllreduceInPlace(ctx, job, []float64{1}, farandole.Name("awaited"))
			fmt.Printf("rank %d hears: %v\n", job.Rank(), err)
			return err
		})
	}()
	return <-code
}

// wishToStop gives 1 on rank 0 when the test wishes the job to end.
func wishToStop(job *farandole.Job, folder string) float64 {
	if _, err := os.Stat(filepath.Join(folder, stopFile)); err != nil || job.Rank() > 0 {
		return 0
	}
	return 1
}

// stepping prints the sentence of the first operation that fails.
func stepping(folder string) int {
	ctx := context.Background()
	err := farandole.Run(ctx, farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		fmt.Printf("rank %d process %d\n", job.Rank(), os.Getpid())
		for step := 1; ; step++ {
			values := []float64{1, wishToStop(job, folder)}
			if err := farandole.AllreduceInPlace(ctx, job, values, farandole.Name("steps"), farandole.Reduce(farandole.Sum)); err != nil {
				fmt.Printf("rank %d epoch ended %v: %v\n", job.Rank(), errors.Is(err, farandole.ErrEpochEnded), err)
				return err
			}
			if values[0] != float64(job.Size()) {
				return fmt.Errorf("the sum is %v", values[0])
			}
			if values[1] > 0 {
				return nil
			}
			if step == 50 {
				fmt.Printf("rank %d step %d\n", job.Rank(), step)
			}
		}
	})
	if err != nil {
		return endedByError
	}
	fmt.Println("done")
	return 0
}

// progress is the state of elasticStepping, in which each step adds its number: a step that is lost or done twice shows.
type progress struct {
	Step, Sum int
	Stop      bool
}

func elasticStepping(folder string) int {
	now, sums := progress{}, make([]float64, 1000)
	var set *farandole.ProcessSet
	err := farandole.Run(context.Background(), farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		return farandole.RunElastic(ctx, job, farandole.Variables(&now, &sums), func(ctx context.Context, loop *farandole.Loop) error {
			fmt.Printf("process %d in an epoch of %d as rank %d from step %d\n", os.Getpid(), job.Size(), job.Rank(), now.Step)
			if err := replaceSet(ctx, job, &set); err != nil {
				return err
			}
			return elasticSteps(ctx, loop, folder, &now, sums)
		})
	})
	if errors.Is(err, farandole.ErrDismissed) {
		fmt.Printf("process %d is dismissed\n", os.Getpid())
		return 0
	}
	wanted := now.Step * (now.Step - 1) / 2
	if err != nil || now.Sum != wanted || sums[999] != float64(12*wanted) {
		fmt.Printf("after %d steps the sums are %d and %v: %v\n", now.Step, now.Sum, sums[999], err)
		return endedByError
	}
	fmt.Printf("process %d done\n", os.Getpid())
	return 0
}

// replaceSet makes rank 0's set of this epoch. That of an epoch before is nothing here, though it may have the same number.
func replaceSet(ctx context.Context, job *farandole.Job, set **farandole.ProcessSet) error {
	before := *set
	made, err := job.AddProcessSet(ctx, 0)
	if err != nil {
		return err
	}
	*set = made
	if before == nil {
		return nil
	}
	if err := before.Remove(ctx); !errors.Is(err, farandole.ErrMismatch) || before.Includes() {
		return fmt.Errorf("a set of another epoch was removed: %v, or includes rank %d", err, job.Rank())
	}
	if !made.Includes() {
		return nil
	}
	return farandole.Barrier(ctx, job, farandole.In(made))
}

func elasticSteps(ctx context.Context, loop *farandole.Loop, folder string, now *progress, sums []float64) error {
	job, values := loop.Job, make([]float64, len(sums))
	sum := farandole.Reduce(farandole.Sum)
	for steps := 1; !now.Stop; steps++ {
		for i := range values {
			values[i] = float64(12 / job.Size() * now.Step)
		}
		wish := []float64{wishToStop(job, folder)}
		if err := farandole.AllreduceInPlace(ctx, job, values, farandole.Name("steps"), sum); err != nil {
			return err
		}
		if err := farandole.AllreduceInPlace(ctx, job, wish, farandole.Name("wish"), sum); err != nil {
			return err
		}
		for i := range sums {
			sums[i] += values[i]
		}
		now.Sum, now.Step, now.Stop = now.Sum+now.Step, now.Step+1, wish[0] > 0
		if err := loop.Commit(ctx); err != nil {
			return err
		}
		if steps == 20 {
			fmt.Printf("process %d has stepped in an epoch of %d\n", os.Getpid(), job.Size())
		}
	}
	return nil
}
