package tests

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// outputOf runs a command and gives its output; the test fails where it does.
func outputOf(t *testing.T, folder string, variables []string, words ...string) string {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Dir, command.Env = folder, append(os.Environ(), variables...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, output)
	}
	return string(output)
}

// copyExamples gives a copy of the examples in a folder of its own, which uses an installed SDK.
func copyExamples(t *testing.T, prefix string) string {
	t.Helper()
	folder := t.TempDir()
	outputOf(t, folder, nil, "cp", "-r", checkout(t, "examples/go")+"/.", folder)
	outputOf(t, folder, nil, "go", "mod", "edit", "-replace", "farandole.dev/go="+filepath.Join(prefix, "share", "farandole", "go"))
	return folder
}

// weightsOf reads what the example has written: a number a line.
func weightsOf(t *testing.T, path string) []float64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var weights []float64
	for _, line := range strings.Fields(string(content)) {
		weight, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, weight)
	}
	return weights
}

func TestTheExampleOfAnInstalledSDKTrainsAsOneProcess(t *testing.T) {
	prefix := t.TempDir()
	checkout(t, ".venv/bin/farandole")
	outputOf(t, checkout(t, "."), nil, "tools/install-prefix", prefix)
	folder := copyExamples(t, prefix)
	program, launcher := filepath.Join(folder, "program"), filepath.Join(prefix, "bin", "farandole")
	outputOf(t, folder, nil, "go", "build", "-o", program, "./mlp")
	variables := []string{"PATH=" + filepath.Join(prefix, "bin") + ":" + os.Getenv("PATH"), "XDG_STATE_HOME=" + folder}
	var alone, loss float64
	file := filepath.Join(folder, "weights")
	if _, err := fmt.Sscanf(outputOf(t, folder, variables, program, file), "1 workers: loss %g", &alone); err != nil || alone > 0.03 {
		t.Fatalf("the loss of one process is %v: %v", alone, err)
	}
	wanted := weightsOf(t, file)
	if len(wanted) != 32*9+33 {
		t.Fatalf("there are %d weights", len(wanted))
	}
	for _, size := range []int{2, 4} {
		own := filepath.Join(folder, fmt.Sprint(size))
		output := outputOf(t, folder, variables, launcher, "run", "-np", fmt.Sprint(size), "--output-filename", own, program, own+".weights")
		said, err := os.ReadFile(filepath.Join(own, "rank.0", "stdout"))
		if err == nil {
			_, err = fmt.Sscanf(string(said), fmt.Sprint(size)+" workers: loss %g", &loss)
		}
		if err != nil || math.Abs(loss-alone) > 1e-4*alone {
			t.Errorf("%d workers: %v; the loss is %v, that of one process %v\n%s", size, err, loss, alone, output)
		}
		// The sums differ by their order only; in training the weights move by some tenths.
		weights := weightsOf(t, own+".weights")
		if len(weights) != len(wanted) {
			t.Fatalf("%d workers: %d weights", size, len(weights))
		}
		for i, weight := range weights {
			if math.Abs(weight-wanted[i]) > 1e-4 {
				t.Errorf("%d workers: weight %d is %v, that of one process %v", size, i, weight, wanted[i])
			}
		}
	}
}
