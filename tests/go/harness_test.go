// Package tests holds the Go SDK to what it promises, with real processes.
//
// A check is a function that all ranks of a job call. One job, in which this program is its own rank, runs all checks in
// order; each rank writes a line of JSON for every check that it has passed or failed, and ends at its first failure.
package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"farandole.dev/go/farandole"
)

const (
	// The role of this program as a rank: one of programs.
	roleVariable = "FARANDOLE_GO_TEST_ROLE"
	// Where a rank writes.
	folderVariable = "FARANDOLE_GO_TEST_FOLDER"
	// A job that takes longer hangs; a killed launcher takes its workers along.
	jobLimit = 100 * time.Second
)

// setup says how the ranks of a job are connected.
type setup struct {
	size, hosts int
	transport   string
}

func (s setup) String() string {
	return fmt.Sprintf("%d ranks on %d hosts by %s", s.size, s.hosts, s.transport)
}

var setups = []setup{
	{1, 1, "auto"}, {2, 1, "auto"}, {3, 1, "auto"}, {4, 1, "auto"},
	{2, 2, "tcp"}, {3, 1, "tcp"}, {3, 2, "auto"}, {4, 2, "auto"},
}

// rank is what a check gets.
type rank struct {
	job *farandole.Job
	ctx context.Context
}

// check is one of the suite.
type check struct {
	name string
	run  func(r *rank)
}

// failure is the panic of a check that has found something.
type failure struct{ text string }

func (r *rank) require(err error) {
	if err != nil {
		panic(failure{err.Error()})
	}
}

func requireThat(holds bool, format string, values ...any) {
	if !holds {
		panic(failure{fmt.Sprintf(format, values...)})
	}
}

func requireEqual[T comparable](found, wanted []T, what string) {
	requireThat(len(found) == len(wanted), "%s: %d elements, not %d", what, len(found), len(wanted))
	for i := range found {
		requireThat(found[i] == wanted[i], "%s: element %d is %v, not %v", what, i, found[i], wanted[i])
	}
}

// requireError fails unless the error is of this kind and has these words.
func requireError(err, kind error, words ...string) {
	requireThat(isKind(err, kind), "the error is %v, not %v", err, kind)
	for _, word := range words {
		requireThat(strings.Contains(err.Error(), word), "%q is not in: %v", word, err)
	}
}

// programs are what a rank may be beside the checks; each returns the exit code.
var programs = map[string]func(folder string) int{"checks": runChecks}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(programs[role](os.Getenv(folderVariable)))
	}
	os.Exit(m.Run())
}

// report is a line that a rank writes.
type report struct{ Check, Error string }

func runChecks(folder string) int {
	ctx := context.Background()
	job, err := farandole.Init(ctx, farandole.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	file, err := os.Create(filepath.Join(folder, strconv.Itoa(job.Rank())))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lines := json.NewEncoder(file)
	for _, each := range checks {
		found := runCheck(each, &rank{job, ctx})
		if err := lines.Encode(report{each.name, found}); err != nil || found != "" {
			return 1
		}
	}
	if err := job.Shutdown(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func runCheck(each check, r *rank) (found string) {
	defer func() {
		if cause := recover(); cause != nil {
			told, isFailure := cause.(failure)
			if !isFailure {
				told.text = fmt.Sprint(cause)
			}
			found = fmt.Sprintf("%s\n%s", told.text, debug.Stack())
		}
	}()
	each.run(r)
	return ""
}

// command gives the command of a job whose ranks run this program in a role, on so many pretended hosts.
func command(t *testing.T, s setup, role, folder string, options ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return jobOf(t, s, folder, append(options, "env", roleVariable+"="+role, folderVariable+"="+folder, program))
}

// jobOf gives a job of any worker, whose options go before it.
func jobOf(t *testing.T, s setup, folder string, worker []string) *exec.Cmd {
	t.Helper()
	launcher := checkout(t, ".venv/bin/farandole")
	first := 0
	for first < len(worker) && strings.HasPrefix(worker[first], "-") {
		first++
	}
	arguments := []string{"run", "-np", strconv.Itoa(s.size), "--state-dir", filepath.Join(folder, "state")}
	arguments = append(arguments, worker[:first]...)
	if s.hosts > 1 {
		split := `FARANDOLE_HOST_ID=$((FARANDOLE_LAUNCH_INDEX * $0 / FARANDOLE_SIZE)) exec "$@"`
		arguments = append(arguments, "sh", "-c", split, strconv.Itoa(s.hosts))
	}
	made := exec.Command(launcher, append(arguments, worker[first:]...)...)
	made.Env = append(os.Environ(), "FARANDOLE_TRANSPORT="+s.transport, "FARANDOLE_LIBRARY="+checkout(t, "sdk/python/farandole/_lib/libfarandole.so"),
		"XDG_STATE_HOME="+filepath.Join(folder, "home"))
	return made
}

// checkout gives the path of a file of the checkout, which must be there.
func checkout(t *testing.T, path string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found := filepath.Join(root, path)
	if _, err := os.Stat(found); err != nil {
		t.Fatalf("%v: run `make install` first", err)
	}
	return found
}

// outcome is what the ranks of a job have told.
type outcome struct {
	output  string
	reports []map[string]string
}

func runJob(t *testing.T, s setup) outcome {
	t.Helper()
	folder := t.TempDir()
	made := command(t, s, "checks", folder)
	var output bytes.Buffer
	made.Stdout, made.Stderr = &output, &output
	watch := time.AfterFunc(jobLimit, func() { _ = made.Process.Kill() })
	_ = made.Run() // the reports tell
	watch.Stop()
	found := outcome{output: output.String()}
	for number := range s.size {
		told := map[string]string{}
		if file, err := os.Open(filepath.Join(folder, strconv.Itoa(number))); err == nil {
			for lines := bufio.NewScanner(file); lines.Scan(); {
				var line report
				if err := json.Unmarshal(lines.Bytes(), &line); err == nil {
					told[line.Check] = line.Error
				}
			}
			file.Close()
		}
		found.reports = append(found.reports, told)
	}
	return found
}

func TestChecksPassOnAllRanks(t *testing.T) {
	for _, s := range setups {
		t.Run(s.String(), func(t *testing.T) {
			found := runJob(t, s)
			for _, each := range checks {
				t.Run(each.name, func(t *testing.T) {
					for number, told := range found.reports {
						if problem, came := told[each.name]; !came {
							t.Fatalf("rank %d did not come to it; the job's output:\n%s", number, found.output)
						} else if problem != "" {
							t.Fatalf("on rank %d: %s", number, problem)
						}
					}
				})
			}
		})
	}
}
