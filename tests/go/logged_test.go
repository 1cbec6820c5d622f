package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"farandole.dev/go/farandole"
)

func init() { programs["logging"] = logging }

// logging logs numbers of two steps and goes on until the test wishes it to end.
func logging(folder string) int {
	err := farandole.Run(context.Background(), farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		for _, step := range []int64{3, 4} {
			if err := job.Log("loss", float64(job.Rank())+float64(step)/10, farandole.Logged{Step: &step}); err != nil {
				return err
			}
			if err := job.Log("own", float64(100*job.Rank()), farandole.Logged{Step: &step, ByRank: true}); err != nil {
				return err
			}
		}
		fmt.Println("logged")
		for stop := []float64{0}; stop[0] == 0; {
			stop[0] = wishToStop(job, folder)
			if err := farandole.AllreduceInPlace(ctx, job, stop, farandole.Name("stop"), farandole.Reduce(farandole.Sum)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return endedByError
	}
	return 0
}

// curve is a series of `farandole metrics --json`.
type curve struct {
	Name     string
	Rank     *int
	LastStep []int64 `json:"last_step"`
	Mean     []float64
	Count    []int64
}

// curves are those of the job by name, and with the rank behind it where they are a rank's own.
func curves(t *testing.T, folder string) map[string]curve {
	t.Helper()
	told, err := exec.Command(checkout(t, ".venv/bin/farandole"), "metrics", "logs", "--json", "--state-dir", filepath.Join(folder, "state")).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	var listed struct{ Series []curve }
	if err := json.Unmarshal(told, &listed); err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	found := map[string]curve{}
	for _, one := range listed.Series {
		name := one.Name
		if one.Rank != nil {
			name += string(rune('0' + *one.Rank))
		}
		found[name] = one
	}
	return found
}

func TestLoggedNumbersAreReadBackByTheCommand(t *testing.T) {
	folder := t.TempDir()
	job := start(t, command(t, setup{2, 1, "auto"}, "logging", folder, "--job=logs"))
	job.expect("logged\n")
	var found map[string]curve
	for end := time.Now().Add(jobLimit); ; {
		found = curves(t, folder)
		// The average of a step comes when all ranks have logged it.
		if len(found) == 3 && len(found["loss"].Count) == 2 && found["loss"].Count[1] == 2 && len(found["own1"].Mean) == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the numbers do not come: %v\n%s", found, job.text())
		}
	}
	for name, wanted := range map[string][]float64{"loss": {0.8, 0.9}, "own0": {0, 0}, "own1": {100, 100}} {
		one := found[name]
		isWanted := reflect.DeepEqual(one.LastStep, []int64{3, 4}) && len(one.Mean) == 2
		if !isWanted || math.Abs(one.Mean[0]-wanted[0]) > 1e-9 || math.Abs(one.Mean[1]-wanted[1]) > 1e-9 {
			t.Fatalf("%s is %+v, and its means should be %v", name, one, wanted)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, stopFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job.requireEnd(0)
}
