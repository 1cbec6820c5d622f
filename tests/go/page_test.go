package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"farandole.dev/tests/internal/page"
)

// The own code of a reader of docs/go.md, around the page's, which takes the place of CODE.
var programsOfThePage = map[string]struct{ text, around string }{
	"fivelines": {"func train(", `package main

import (
	"context"
	"log"
)

CODE
var weights, gradient = make([]float32, 100), []float32{1, 2}
`},
	"elastic": {"RunElastic", `package main

import (
	"context"
	"fmt"
	"log"

	"farandole.dev/go/farandole"
)

func descend(gradient, weights []float32) {
	for i := range weights {
		weights[i] -= gradient[i]
	}
}

func train(ctx context.Context, job *farandole.Job) error {
	weights, gradient, step, steps := make([]float32, 2), []float32{1, 1}, 0, 20
CODE
	if err == nil && (step != steps || weights[1] != -20) {
		return fmt.Errorf("after %d steps the weights are %v", step, weights)
	}
	return err
}

func main() {
	if err := farandole.Run(context.Background(), farandole.Options{}, train); err != nil {
		log.Fatal(err)
	}
}
`},
}

func TestCodeOfThePageRuns(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module page\n\ngo 1.22\n\nrequire farandole.dev/go v0.0.0\n\nreplace farandole.dev/go => "+checkout(t, "sdk/go")+"\n")
	for name, each := range programsOfThePage {
		code, err := page.Block(checkout(t, "docs/go.md"), each.text)
		if err != nil {
			t.Fatal(err)
		}
		write(name+"/main.go", strings.Replace(each.around, "CODE", code, 1))
	}
	programs := t.TempDir()
	outputOf(t, folder, nil, "go", "build", "-o", programs+"/", "./...")
	for name := range programsOfThePage {
		if output, err := jobOf(t, setup{2, 1, "auto"}, t.TempDir(), []string{filepath.Join(programs, name)}).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}
