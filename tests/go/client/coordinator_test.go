// Package client holds the Go client of the control plane to what it promises, with real coordinators and jobs.
package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"farandole.dev/go/client"
	"farandole.dev/go/farandole"
)

const (
	roleVariable   = "FARANDOLE_GO_TEST_ROLE"
	folderVariable = "FARANDOLE_GO_TEST_FOLDER"
	// A test that takes longer hangs.
	limit = 60 * time.Second
)

var listening = regexp.MustCompile(`listening on (\S+), state in .*, token in ([^\s,]+)`)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "stall":
		os.Exit(stall())
	case "shrink":
		os.Exit(shrink())
	case "leave":
		os.Exit(leave())
	case "asked":
		os.Exit(asked())
	}
	os.Exit(m.Run())
}

// stall is a rank of a job that waits for its rank 1.
func stall() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	job, err := farandole.Init(ctx, farandole.Options{})
	if err != nil {
		return 1
	}
	if job.Rank() == 1 {
		<-ctx.Done()
		return 1
	}
	if err := farandole.AllreduceInPlace(ctx, job, []float32{1}, farandole.Name("late")); err != nil {
		return 1
	}
	return 0
}

// leave is a rank of a job that ends at once.
func leave() int {
	if err := farandole.Run(context.Background(), farandole.Options{}, func(context.Context, *farandole.Job) error { return nil }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// asked is a rank of a job that goes on until it is asked for a checkpoint, and saves one.
func asked() int {
	err := farandole.Run(context.Background(), farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		for step := int64(1); ; step++ {
			if isAsked, err := job.CheckpointRequested(ctx); err != nil || isAsked {
				return errors.Join(err, save(ctx, job, step))
			}
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func save(ctx context.Context, job *farandole.Job, step int64) error {
	write := func(path string) error { return os.WriteFile(path, []byte("state"), 0o600) }
	_, err := farandole.SaveCheckpoint(ctx, job, os.Getenv(folderVariable), step, farandole.CheckpointOptions{Name: "net"}, write)
	return err
}

// shrink is a rank of an elastic job that saves a checkpoint and then trains until one rank is left.
func shrink() int {
	ctx := context.Background()
	err := farandole.Run(ctx, farandole.Options{}, func(ctx context.Context, job *farandole.Job) error {
		saved := []int64{0}
		return farandole.RunElastic(ctx, job, farandole.Variables(&saved), func(ctx context.Context, loop *farandole.Loop) error {
			if saved[0] == 0 {
				if err := save(ctx, loop.Job, 7); err != nil {
					return err
				}
				saved[0] = 1
			}
			for loop.Job.Size() > 1 {
				if err := farandole.AllreduceInPlace(ctx, loop.Job, []float32{1}, farandole.Name("gradient")); err != nil {
					return err
				}
				if err := loop.Commit(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, farandole.ErrDismissed) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// checkout gives the path of a file of the checkout, which must be there.
func checkout(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.Abs(filepath.Join("..", "..", "..", path))
	if err == nil {
		_, err = os.Stat(found)
	}
	if err != nil {
		t.Fatalf("%v: run `make install` first", err)
	}
	return found
}

// coordinator is a running `farandole serve`.
type coordinator struct {
	t                  *testing.T
	command            *exec.Cmd
	state              string
	options            []string
	address, tokenFile string
}

func serve(t *testing.T, options ...string) *coordinator {
	t.Helper()
	made := &coordinator{t: t, state: filepath.Join(t.TempDir(), "state"), options: options}
	made.start("127.0.0.1:0")
	t.Cleanup(made.kill)
	return made
}

func (c *coordinator) start(listen string) {
	c.t.Helper()
	arguments := append([]string{"serve", "--listen", listen, "--state-dir", c.state}, c.options...)
	c.command = exec.Command(checkout(c.t, ".venv/bin/farandole"), arguments...)
	output, err := c.command.StderrPipe()
	if err == nil {
		c.command.Stdout = c.command.Stderr
		err = c.command.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			c.address, c.tokenFile = found[1], found[2]
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return
		}
	}
	c.t.Fatalf("the coordinator ended before it listened on %s", listen)
}

func (c *coordinator) kill() {
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}

// restart kills the coordinator and starts it at the same address.
func (c *coordinator) restart() {
	c.t.Helper()
	c.kill()
	c.start(c.address)
}

// stalledJob starts a job of 2 ranks that waits for its rank 1.
func (c *coordinator) stalledJob(name string) {
	c.t.Helper()
	c.startJob(name, nil, roleVariable+"=stall", "FARANDOLE_STALL_WARNING_MS=200")
}

// startJob starts a job of 2 ranks, which ends with the test.
func (c *coordinator) startJob(name string, options []string, variables ...string) *exec.Cmd {
	c.t.Helper()
	program, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	arguments := append([]string{"run", "-np", "2", "--attach", "--job", name, "--coordinator", c.address, "--token-file", c.tokenFile}, options...)
	job := exec.Command(checkout(c.t, ".venv/bin/farandole"), append(arguments, program)...)
	job.Env = append(os.Environ(), "FARANDOLE_LIBRARY="+checkout(c.t, "sdk/python/farandole/_lib/libfarandole.so"))
	job.Env = append(job.Env, variables...)
	if err := job.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = job.Process.Signal(syscall.SIGTERM)
		_ = job.Wait()
	})
	return job
}

// open gives a client whose token is the coordinator's.
func (c *coordinator) open(change func(options *client.Options)) *client.Client {
	c.t.Helper()
	options := client.Options{Address: c.address, Token: client.TokenFile(c.tokenFile), WatchInterval: 50 * time.Millisecond}
	if change != nil {
		change(&options)
	}
	made, err := client.New(options)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = made.Close() })
	return made
}

func limited(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	t.Cleanup(stop)
	return ctx
}
