package tests

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"farandole.dev/go/farandole"
)

func init() { programs["hanging"] = hanging }

// hanging steps until its last rank waits in loadBatch for input that never comes.
func hanging(string) int {
	ctx := context.Background()
	err := farandole.Run(ctx, farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		input := make(chan float64)
		defer close(input)
		for step := 1; ; step++ {
			if step == 20 && job.Rank() == job.Size()-1 {
				fmt.Println("stuck")
				loadBatch(input)
			}
			if err := farandole.AllreduceInPlace(ctx, job, make([]float64, 8192), farandole.Name("grad")); err != nil {
				return err
			}
		}
	})
	fmt.Println(err)
	return endedByError
}

//go:noinline
func loadBatch(input chan float64) float64 { return <-input }

func TestAProgramThatHangsIsShownInItsFunctions(t *testing.T) {
	folder := t.TempDir()
	job := start(t, command(t, setup{3, 1, "auto"}, "hanging", folder, "--job=hang"))
	job.expect("stuck\n")
	diagnose := exec.Command(checkout(t, ".venv/bin/farandole"), "diagnose", "--state-dir", filepath.Join(folder, "state"), "hang")
	told, err := diagnose.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, told, job.text())
	}
	most, outlier, _ := strings.Cut(string(told), "stack of rank 2,")
	if !strings.Contains(most, "stack of ranks 0,1 (most), goroutines, as Go's runtime has them\n") {
		t.Fatalf("ranks 0 and 1 have no stack of their own:\n%s", told)
	}
	if !strings.Contains(outlier, "tests.loadBatch (") || !strings.Contains(outlier, "stacks_test.go:") || strings.Contains(most, "loadBatch") {
		t.Fatalf("rank 2 is not shown in loadBatch:\n%s", told)
	}
}
