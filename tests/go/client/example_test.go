package client

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"farandole.dev/go/client"
	"farandole.dev/tests/internal/page"
)

func run(t *testing.T, folder string, words ...string) {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, output)
	}
}

// writePage writes the program of docs/go.md, as its reader has it, into the folder `page`.
func writePage(t *testing.T, folder string) {
	t.Helper()
	code, err := page.Block(checkout(t, "docs/go.md"), "client.FromEnvironment")
	program := `package main

import (
	"context"
	"fmt"
	"log"

	"farandole.dev/go/client"
)

func main() {
	ctx := context.Background()
` + code + `
	if err != nil {
		log.Fatal(err)
	}
}
`
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "page"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "page", "main.go"), []byte(program), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheOperatorOfAnInstalledSDKTellsTheBlocker(t *testing.T) {
	prefix, folder := t.TempDir(), t.TempDir()
	module := filepath.Join(prefix, "share", "farandole", "go")
	run(t, checkout(t, "."), "tools/install-sdk", prefix, "lib")
	run(t, folder, "cp", "-r", checkout(t, "examples/go/operator")+"/.", ".")
	run(t, folder, "go", "mod", "edit", "-replace", "farandole.dev/go="+module, "-replace", "farandole.dev/go/client="+module+"/client")
	writePage(t, folder)
	run(t, folder, "env", "CGO_ENABLED=0", "go", "build", "-o", "operator", ".")
	run(t, folder, "env", "CGO_ENABLED=0", "go", "build", "-o", "page/page", "./page")

	ctx, shared := limited(t), serve(t)
	operator := exec.CommandContext(ctx, filepath.Join(folder, "operator"), "mnist")
	operator.Env = append(os.Environ(), "FARANDOLE_COORDINATOR="+shared.address, "FARANDOLE_TOKEN_FILE="+shared.tokenFile)
	output, err := operator.StdoutPipe()
	if err == nil {
		err = operator.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	expect := func(words ...string) {
		t.Helper()
		for lines.Scan() {
			hasAll := true
			for _, word := range words {
				hasAll = hasAll && strings.Contains(lines.Text(), word)
			}
			if hasAll {
				return
			}
		}
		t.Fatalf("the operator never told %q", words)
	}
	expect("job mnist has not come yet")
	shared.stalledJob("mnist")
	expect("job mnist is running: ", "late", "rank 1")
	shown := exec.CommandContext(ctx, filepath.Join(folder, "page", "page"))
	shown.Env = operator.Env
	if said, err := shown.CombinedOutput(); err != nil || !strings.Contains(string(said), "running") || !strings.Contains(string(said), "rank 1") {
		t.Fatalf("the page's program says %q: %v", said, err)
	}
	if err := shared.open(nil).Abort(ctx, client.JobID{Name: "mnist"}, "the test has seen enough"); err != nil {
		t.Fatal(err)
	}
	expect("job mnist is failed: ", "the test has seen enough")
	if err := operator.Wait(); operator.ProcessState.ExitCode() != 1 {
		t.Fatalf("the operator of a failed job ended with %v", err)
	}
}
