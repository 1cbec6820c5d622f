package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// launched is a job whose output a test follows.
type launched struct {
	t       *testing.T
	command *exec.Cmd
	mu      sync.Mutex
	output  strings.Builder
	// Gets a value when there is more output, and is closed at its end.
	more chan struct{}
}

// start starts a job and ends it with the test.
func start(t *testing.T, command *exec.Cmd) *launched {
	t.Helper()
	job := &launched{t: t, command: command, more: make(chan struct{}, 1)}
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go job.read(pipe)
	t.Cleanup(func() { _ = command.Process.Kill() })
	return job
}

func (j *launched) read(pipe io.Reader) {
	defer close(j.more)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		j.mu.Lock()
		j.output.WriteString(lines.Text() + "\n")
		j.mu.Unlock()
		select {
		case j.more <- struct{}{}:
		default:
		}
	}
}

func (j *launched) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.output.String()
}

// expect waits for output that matches and gives the match's groups.
func (j *launched) expect(pattern string) []string {
	j.t.Helper()
	wanted, limit := regexp.MustCompile(pattern), time.After(jobLimit)
	for isOpen := true; ; {
		if found := wanted.FindStringSubmatch(j.text()); found != nil {
			return found
		}
		if !isOpen {
			j.t.Fatalf("the job ended without %q:\n%s", pattern, j.text())
		}
		select {
		case _, isOpen = <-j.more:
		case <-limit:
			j.t.Fatalf("no %q within %v:\n%s", pattern, jobLimit, j.text())
		}
	}
}

// kill ends the process of this number as kill -9 does.
func (j *launched) kill(pid string) {
	j.t.Helper()
	number, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(number, syscall.SIGKILL)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// requireEnd waits for the end of the launcher and fails unless it exits with this code.
func (j *launched) requireEnd(code int) {
	j.t.Helper()
	limit := time.After(jobLimit)
	for isOpen := true; isOpen; {
		select {
		case _, isOpen = <-j.more:
		case <-limit:
			j.t.Fatalf("the job does not end:\n%s", j.text())
		}
	}
	_ = j.command.Wait() // the code tells
	if found := j.command.ProcessState.ExitCode(); found != code {
		j.t.Fatalf("the job exits with %d, not %d:\n%s", found, code, j.text())
	}
}

func TestKilledRankIsNamedToAllOthers(t *testing.T) {
	for _, each := range []struct {
		setup
		victim int
	}{{setup{3, 1, "auto"}, 0}, {setup{3, 1, "auto"}, 2}, {setup{2, 1, "tcp"}, 1}, {setup{4, 2, "auto"}, 2}} {
		t.Run(fmt.Sprintf("rank %d of %v", each.victim, each.setup), func(t *testing.T) {
			job := start(t, command(t, each.setup, "stepping", t.TempDir()))
			for rank := range each.size {
				job.expect(fmt.Sprintf(`rank %d step 50\n`, rank))
			}
			job.kill(job.expect(fmt.Sprintf(`rank %d process (\d+)\n`, each.victim))[1])
			for rank := range each.size {
				if rank != each.victim {
					job.expect(fmt.Sprintf(`rank %d epoch ended true: .*rank %d\b`, rank, each.victim))
				}
			}
			job.requireEnd(128 + int(syscall.SIGKILL))
		})
	}
}

func TestRankThatEndsItsGoroutineInRunTellsTheOthers(t *testing.T) {
	job := start(t, command(t, setup{2, 1, "auto"}, "deserting", t.TempDir()))
	job.expect(`rank 1 hears: .*the function ended its goroutine \(runtime.Goexit\)`)
	job.requireEnd(endedByError)
	if strings.Contains(job.text(), "panic") {
		t.Fatal(job.text())
	}
}

func TestWordsThatAreNotUTF8AreReplaced(t *testing.T) {
	job := start(t, command(t, setup{2, 1, "auto"}, "failing", t.TempDir()))
	job.expect(`rank 0 hears: .*bad \x{FFFD}\x{FFFD} words\x{F6}`)
	job.requireEnd(endedByError)
	elastic := start(t, command(t, setup{2, 1, "auto"}, "departing", t.TempDir(), "--min-np", "1", "--max-np", "2"))
	for rank := range 2 {
		elastic.expect(fmt.Sprintf(`rank %d is told: .*bad \x{FFFD}\x{FFFD} words`, rank))
	}
	for _, each := range []*launched{job, elastic} {
		if strings.Contains(each.text(), "libprotobuf") {
			t.Fatal(each.text())
		}
	}
}

func TestJobThatNobodyKillsEndsInOrder(t *testing.T) {
	folder := t.TempDir()
	job := start(t, command(t, setup{2, 1, "auto"}, "stepping", folder))
	job.expect(`rank 1 step 50\n`)
	stop(t, folder)
	job.requireEnd(0)
}

func TestElasticLoopOutlivesAKilledWorkerAndTakesANewOne(t *testing.T) {
	// Over two hosts, state and steps cross the network; the newcomer is on a third one.
	for _, s := range []setup{{3, 1, "auto"}, {3, 2, "auto"}} {
		t.Run(s.String(), func(t *testing.T) { outliveAKilledWorker(t, s) })
	}
}

func outliveAKilledWorker(t *testing.T, s setup) {
	folder := t.TempDir()
	job := start(t, command(t, s, "elastic", folder, "--min-np=2", "--max-np=3"))
	pids := map[string]bool{}
	for rank := range 3 {
		pid := job.expect(fmt.Sprintf(`process (\d+) in an epoch of 3 as rank %d from step 0\n`, rank))[1]
		job.expect(fmt.Sprintf(`process %s has stepped in an epoch of 3\n`, pid))
		pids[pid] = true
	}
	victim := job.expect(`process (\d+) in an epoch of 3 as rank 0 from step 0\n`)[1]
	job.kill(victim)
	delete(pids, victim)
	for pid := range pids {
		job.expect(fmt.Sprintf(`process %s in an epoch of \d as rank \d from step [1-9]\d*\n`, pid))
	}
	// The launcher starts another worker, which takes the last rank and the state of the others.
	newcomer := job.expect(`process (\d+) in an epoch of 3 as rank 2 from step [1-9]\d*\n`)[1]
	if pids[newcomer] {
		t.Fatalf("process %s is no newcomer:\n%s", newcomer, job.text())
	}
	job.expect(fmt.Sprintf(`process %s has stepped in an epoch of 3\n`, newcomer))
	stop(t, folder)
	for pid := range pids {
		job.expect(fmt.Sprintf(`process %s done\n`, pid))
	}
	job.expect(fmt.Sprintf(`process %s done\n`, newcomer))
	job.requireEnd(0)
}

func stop(t *testing.T, folder string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, stopFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
