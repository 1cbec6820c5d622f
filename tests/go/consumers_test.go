package tests

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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

func TestTheExampleOfAnInstalledSDKTrainsAsOneProcess(t *testing.T) {
	prefix := t.TempDir()
	checkout(t, ".venv/bin/farandole")
	outputOf(t, checkout(t, "."), nil, "tools/install-prefix", prefix)
	folder := copyExamples(t, prefix)
	program, launcher := filepath.Join(folder, "program"), filepath.Join(prefix, "bin", "farandole")
	outputOf(t, folder, nil, "go", "build", "-o", program, "./mlp")
	variables := []string{"PATH=" + filepath.Join(prefix, "bin") + ":" + os.Getenv("PATH"), "XDG_STATE_HOME=" + folder}
	var alone, loss, weights, wanted float64
	if _, err := fmt.Sscanf(outputOf(t, folder, variables, program), "1 workers: loss %g, sum of weights %g", &alone, &wanted); err != nil || alone > 0.03 {
		t.Fatalf("the loss of one process is %v: %v", alone, err)
	}
	for _, size := range []int{2, 4} {
		output := outputOf(t, folder, variables, launcher, "run", "-np", fmt.Sprint(size), "--output-filename", filepath.Join(folder, fmt.Sprint(size)), program)
		said, err := os.ReadFile(filepath.Join(folder, fmt.Sprint(size), "rank.0", "stdout"))
		if err == nil {
			_, err = fmt.Sscanf(string(said), fmt.Sprint(size)+" workers: loss %g, sum of weights %g", &loss, &weights)
		}
		if err != nil || math.Abs(loss-alone) > 1e-4*alone || math.Abs(weights-wanted) > 1e-4*wanted {
			t.Errorf("%d workers: %v; the loss is %v and the sum %v, those of one process %v and %v\n%s", size, err, loss, weights, alone, wanted, output)
		}
	}
}
