package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"farandole.dev/go/client"
)

// requireError fails unless the error is of this kind and has these words.
func requireError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("the error is %v, not %v", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("%q is not in: %v", word, err)
		}
	}
}

// follow waits until a job is as the caller wants.
func follow(t *testing.T, ctx context.Context, watch *client.Watch, what string, isSo func(client.Details) bool) client.Details {
	t.Helper()
	for {
		found, err := watch.Next(ctx)
		if errors.Is(err, client.ErrNotFound) {
			continue // its workers have not joined yet
		}
		if err != nil {
			t.Fatalf("the job never %s: %v", what, err)
		}
		if isSo(found) {
			return found
		}
	}
}

func TestAWatchSeesTheBlockerARestartAndTheEnd(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	shared.stalledJob("mnist")
	operator, id := shared.open(nil), client.JobID{Name: "mnist"}
	watch := operator.Watch(id)
	stalled := follow(t, ctx, watch, "stalled", func(job client.Details) bool { return job.LastStall != "" })
	if !strings.Contains(stalled.Blocker(), "late") || stalled.State != client.Running || stalled.Size != 2 || len(stalled.Workers) != 2 {
		t.Fatalf("the blocker is %q of %+v", stalled.Blocker(), stalled)
	}
	listed, err := operator.Jobs(ctx)
	if err != nil || len(listed) != 1 || listed[0].Name != "mnist" || listed[0].Tenant != "default" {
		t.Fatalf("listed are %+v: %v", listed, err)
	}
	if catalogue, err := operator.Checkpoints(ctx, id); err != nil || len(catalogue) != 0 {
		t.Fatalf("the catalogue is %+v: %v", catalogue, err)
	}
	_, err = operator.DrainRank(ctx, id, 1, "a test")
	requireError(t, err, client.ErrNotRunning, "refused to drain workers of job mnist", shared.address)

	shared.restart()
	follow(t, ctx, watch, "was shown after the restart", func(client.Details) bool { return true })
	if err := operator.Abort(ctx, id, "the test has seen enough"); err != nil {
		t.Fatal(err)
	}
	ended := follow(t, ctx, watch, "ended", func(job client.Details) bool { return job.State.HasEnded() })
	if ended.State != client.Failed || !strings.Contains(ended.Reason, "the test has seen enough") {
		t.Fatalf("the job is %s: %s", ended.State, ended.Reason)
	}
	if _, err := watch.Next(ctx); err != io.EOF {
		t.Fatalf("after the job's end a watch gives %v", err)
	}
}

func TestADrainedRankLeavesAndTheCatalogueHasTheCheckpoint(t *testing.T) {
	ctx, shared, folder := limited(t), serve(t), t.TempDir()
	shared.startJob("net", []string{"--min-np", "1", "--max-np", "2"}, roleVariable+"=shrink", folderVariable+"="+folder)
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	watch := operator.Watch(id)
	formed := follow(t, ctx, watch, "ran with 2 ranks", func(job client.Details) bool { return job.State == client.Running && job.Size == 2 })
	if formed.Elastic == nil || formed.Elastic.MinSize != 1 || formed.Elastic.MaxSize != 2 || formed.Workers[1].PID == formed.Workers[0].PID {
		t.Fatalf("the job is %+v, %+v", formed, formed.Elastic)
	}
	ranks, err := operator.DrainRank(ctx, id, 1, "the test wants its place")
	if err != nil || !slices.Equal(ranks, []int{1}) {
		t.Fatalf("asked to leave are %v: %v", ranks, err)
	}
	ended := follow(t, ctx, watch, "ended", func(job client.Details) bool { return job.State.HasEnded() })
	if ended.State != client.Finished || ended.Size != 1 || ended.Epoch == formed.Epoch {
		t.Fatalf("the job is %s with %d ranks in epoch %d: %s", ended.State, ended.Size, ended.Epoch, ended.Reason)
	}
	catalogue, err := operator.Checkpoints(ctx, id)
	if err != nil || len(catalogue) != 1 {
		t.Fatalf("the catalogue is %+v: %v", catalogue, err)
	}
	row := catalogue[0]
	content, err := os.ReadFile(row.Path)
	if err != nil {
		t.Fatal(err)
	}
	if row.Name != "net" || row.Step != 7 || row.Rank != 0 || row.SizeBytes != uint64(len(content)) || row.SHA256 != fmt.Sprintf("%x", sha256.Sum256(content)) {
		t.Fatalf("the checkpoint is %+v", row)
	}
}

func TestAJobIsAskedForACheckpoint(t *testing.T) {
	ctx, shared, folder := limited(t), serve(t), t.TempDir()
	shared.startJob("net", nil, roleVariable+"=asked", folderVariable+"="+folder)
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	watch := operator.Watch(id)
	running := follow(t, ctx, watch, "ran", func(job client.Details) bool { return job.State == client.Running })
	if running.CheckpointRequest != nil {
		t.Fatalf("nobody has asked, and the request is %+v", running.CheckpointRequest)
	}
	asked, err := operator.RequestCheckpoint(ctx, id)
	if err != nil || asked.Number != 1 || asked.Times != 1 || !asked.IsPending() || asked.Checkpoint != nil || !strings.HasPrefix(asked.Asker, "token ") || asked.Since.Before(running.Created) {
		t.Fatalf("the request is %+v: %v", asked, err)
	}
	ended := follow(t, ctx, watch, "ended", func(job client.Details) bool { return job.State.HasEnded() })
	catalogue, err := operator.Checkpoints(ctx, id)
	if err != nil || len(catalogue) != 1 {
		t.Fatalf("the catalogue is %+v: %v", catalogue, err)
	}
	over := ended.CheckpointRequest
	if over == nil || over.IsPending() || over.Number != 1 || over.Told.IsZero() || over.Failure != "" || over.Checkpoint == nil || *over.Checkpoint != catalogue[0] {
		t.Fatalf("the request is %+v, and the catalogue %+v", over, catalogue)
	}
	_, err = operator.RequestCheckpoint(ctx, id)
	requireError(t, err, client.ErrNotRunning, "refused to ask job net for a checkpoint")
	_, err = operator.RequestCheckpoint(ctx, client.JobID{Name: "nowhere"})
	requireError(t, err, client.ErrNotFound, "nowhere")
}

func TestAWorkerThatIsSentSIGTERMLeavesInOrder(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	launcher := shared.startJob("net", []string{"--min-np", "1", "--max-np", "2"}, roleVariable+"=shrink", folderVariable+"="+t.TempDir())
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	watch := operator.Watch(id)
	formed := follow(t, ctx, watch, "ran with 2 ranks", func(job client.Details) bool { return job.State == client.Running && job.Size == 2 })
	// A rank saves its checkpoint when all ranks are in RunElastic, which minds SIGTERM.
	for {
		catalogue, err := operator.Checkpoints(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(catalogue) == 1 {
			break
		}
	}
	if err := syscall.Kill(formed.Workers[1].PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := follow(t, ctx, watch, "ended", func(job client.Details) bool { return job.State.HasEnded() })
	isTold := slices.ContainsFunc(ended.History, func(event client.Event) bool {
		return strings.Contains(event.Sentence, "its process was sent SIGTERM")
	})
	if ended.State != client.Finished || ended.Size != 1 || ended.Elastic.Resets != 0 || !isTold {
		t.Fatalf("the job is %s with %d ranks after %d losses: %v", ended.State, ended.Size, ended.Elastic.Resets, ended.History)
	}
	if err := launcher.Wait(); err != nil {
		t.Fatalf("the launcher ended with %v", err)
	}
}

func TestTokensAreMadeRotatedAndRevoked(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	root := shared.open(nil)
	text, err := root.CreateTenant(ctx, client.Tenant{Name: "vision"})
	if err != nil {
		t.Fatal(err)
	}
	admin := shared.open(func(options *client.Options) { options.Token = client.Token(text) })
	made, about, err := admin.CreateToken(ctx, client.NewToken{Role: client.Viewer, Label: "a page", Lifetime: time.Hour})
	if err != nil || about.Role != client.Viewer || about.Expires.Sub(about.Created) != time.Hour {
		t.Fatalf("made %+v: %v", about, err)
	}
	viewer := shared.open(func(options *client.Options) { options.Token = client.Token(made) })
	_, _, err = viewer.CreateToken(ctx, client.NewToken{Role: client.Viewer})
	requireError(t, err, client.ErrDenied, "(viewer of tenant vision) may not manage tokens")
	_, _, err = admin.CreateToken(ctx, client.NewToken{Role: client.Root})
	requireError(t, err, client.ErrDenied, "may not make a token of the role root")
	fresh, err := admin.RotateToken(ctx, about.ID, time.Minute)
	if err != nil || fresh == made {
		t.Fatalf("rotated: %v", err)
	}
	if _, err := viewer.Jobs(ctx); err != nil {
		t.Fatalf("in the overlap: %v", err)
	}
	if ended, err := admin.RevokeToken(ctx, about.ID, false); err != nil || ended != 1 {
		t.Fatalf("ended %d: %v", ended, err)
	}
	_, err = viewer.Jobs(ctx)
	requireError(t, err, client.ErrDenied, "was revoked")
	tokens, err := admin.Tokens(ctx, "")
	if err != nil || len(tokens) != 2 || tokens[1].ID != about.ID || tokens[1].Ended == "" {
		t.Fatalf("listed %+v: %v", tokens, err)
	}
}

func TestListsAreWalkedPageByPageWhileRowsAppearAndVanish(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	root := shared.open(nil)
	finish := func(name string) {
		if err := shared.startJob(name, nil, roleVariable+"=leave").Wait(); err != nil {
			t.Fatalf("job %s: %v", name, err)
		}
	}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		finish(name)
	}
	var names []string
	root.EachJob(ctx, 2)(func(job client.Job, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, job.Name)
		if len(names) == 2 { // the second page is not there yet
			for _, gone := range []string{"four", "three"} {
				if err := root.Delete(ctx, client.JobID{Name: gone}); err != nil {
					t.Fatal(err)
				}
			}
			finish("six")
		}
		return true
	})
	if !slices.Equal(names, []string{"five", "four", "two", "one"}) {
		t.Fatalf("walked %v", names)
	}
	root.EachJob(ctx, 1)(func(job client.Job, err error) bool { // the one that ends it asks for no other page
		if err != nil || job.Name != "six" {
			t.Fatalf("the newest is %s: %v", job.Name, err)
		}
		return false
	})
	ended, stop := context.WithCancel(ctx)
	stop()
	calls := 0
	root.EachCheckpoint(ended, client.JobID{Name: "one"}, 1)(func(_ client.Checkpoint, err error) bool {
		calls++
		return err == nil
	})
	if _, err := root.Checkpoints(ended, client.JobID{Name: "one"}); calls != 1 || !errors.Is(err, context.Canceled) {
		t.Fatalf("an error was given %d times, and then %v", calls, err)
	}
}

func TestACheckpointIsDeletedAndItsFileStays(t *testing.T) {
	ctx, shared, folder := limited(t), serve(t), t.TempDir()
	shared.startJob("net", []string{"--min-np", "1", "--max-np", "2"}, roleVariable+"=shrink", folderVariable+"="+folder)
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	follow(t, ctx, operator.Watch(id), "ran with 2 ranks", func(job client.Details) bool { return job.State == client.Running && job.Size == 2 })
	var rows []client.Checkpoint
	for len(rows) == 0 {
		var err error
		if rows, err = operator.Checkpoints(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := operator.DeleteCheckpoint(ctx, id, "net", 7)
	if err != nil || deleted != rows[0] {
		t.Fatalf("deleted %+v: %v", deleted, err)
	}
	if _, err := os.Stat(deleted.Path); err != nil {
		t.Fatal(err)
	}
	_, err = operator.DeleteCheckpoint(ctx, id, "net", 7)
	requireError(t, err, client.ErrNotFound, "the job has no checkpoint net at step 7")
	if rows, err = operator.Checkpoints(ctx, id); err != nil || len(rows) != 0 {
		t.Fatalf("left are %+v: %v", rows, err)
	}
}

func TestATenantSeesItsJobsOnly(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	admin := shared.open(nil)
	token, err := admin.CreateTenant(ctx, client.Tenant{Name: "vision", MaxJobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.CreateTenant(ctx, client.Tenant{Name: "vision"})
	requireError(t, err, client.ErrExists, "vision", shared.address)
	_, err = admin.CreateTenant(ctx, client.Tenant{Name: "Vision!"})
	requireError(t, err, client.ErrMismatch, "Vision!")
	tenant := shared.open(func(options *client.Options) { options.Token = client.Token(token) })
	if jobs, err := tenant.Jobs(ctx); err != nil || len(jobs) != 0 {
		t.Fatalf("the tenant sees %+v: %v", jobs, err)
	}
	requireError(t, tenant.Abort(ctx, client.JobID{Name: "mnist"}, "no"), client.ErrNotFound, "refused to end job mnist")
	_, err = tenant.Job(ctx, client.JobID{Tenant: "default", Name: "mnist"})
	requireError(t, err, client.ErrDenied, "vision", "default")
	_, err = tenant.Job(ctx, client.JobID{Name: "mnist"})
	requireError(t, err, client.ErrNotFound, "refused to show job mnist")
}

func TestAJobInTheQueueHasItsPlace(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	token, err := shared.open(nil).CreateTenant(ctx, client.Tenant{Name: "vision", MaxWorkers: 2})
	if err != nil {
		t.Fatal(err)
	}
	shared.tokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(shared.tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	tenant := shared.open(nil)
	await := func(name string, isSo func(client.Details) bool) client.Details {
		t.Helper()
		for watch := tenant.Watch(client.JobID{Name: name}); ; {
			found, err := watch.Next(ctx)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				t.Fatal(err)
			}
			if err == nil && isSo(found) {
				return found
			}
		}
	}
	shared.stalledJob("first")
	await("first", func(job client.Details) bool { return job.State == client.Running })
	shared.stalledJob("second")
	queued := await("second", func(job client.Details) bool { return job.State == client.Queued })
	wanted := client.QueuePlace{Position: 1, Length: 1, Reason: "it wants 2 workers, tenant vision has 2 in its other jobs, and its quota is 2"}
	if queued.Queue == nil || *queued.Queue != wanted || queued.State.HasEnded() || queued.Blocker() != "place 1 of 1 in the queue: "+wanted.Reason {
		t.Fatalf("it is %+v, with the place %+v", queued.Job, queued.Queue)
	}
	if err := tenant.Abort(ctx, client.JobID{Name: "second"}, "not today"); err != nil {
		t.Fatal(err)
	}
	_, err = tenant.Job(ctx, client.JobID{Name: "second"})
	requireError(t, err, client.ErrNotFound, "refused to show job second")
}

func TestATokenFileIsReadForEachCall(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	right, err := os.ReadFile(shared.tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	operator := shared.open(func(options *client.Options) { options.Token = client.TokenFile(path) })
	_, err = operator.Jobs(ctx)
	requireError(t, err, os.ErrNotExist, path, shared.address)
	write([]byte("wrong"))
	_, err = operator.Jobs(ctx)
	requireError(t, err, client.ErrDenied, "coordinator "+shared.address+" refused the token in "+path+": ")
	write([]byte("two\nlines"))
	_, err = operator.Jobs(ctx)
	requireError(t, err, client.ErrMismatch, "has the byte 0x0a at position 3")
	write(right)
	if _, err := operator.Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	nobody := shared.open(func(options *client.Options) { options.Token = client.TokenSource{} })
	_, err = nobody.Jobs(ctx)
	requireError(t, err, client.ErrDenied, "wants a token, and none was given")
	t.Setenv("FARANDOLE_COORDINATOR", shared.address)
	t.Setenv("FARANDOLE_TOKEN_FILE", path)
	options, err := client.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.open(func(given *client.Options) { *given = options }).Jobs(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestACallEndsWithItsContextOrItsPatience(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	hasty := shared.open(func(options *client.Options) { options.Patience = -1 })
	patient := shared.open(nil)
	shared.kill()
	_, err := hasty.Jobs(ctx)
	requireError(t, err, client.ErrUnavailable, "coordinator "+shared.address+" is unreachable: ", "connection refused")
	given, giveUp := context.WithCancel(ctx)
	giveUp()
	_, err = patient.Jobs(given)
	requireError(t, err, context.Canceled, shared.address)
	_, err = patient.Watch(client.JobID{Name: "mnist"}).Next(given)
	requireError(t, err, context.Canceled, shared.address)
	if err := patient.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = patient.Jobs(ctx)
	requireError(t, err, client.ErrNotRunning, "the client of coordinator "+shared.address+" was closed")
}

func TestAContextEndsACallToACoordinatorThatHangs(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	operator := shared.open(nil)
	if _, err := operator.Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	pid := shared.command.Process.Pid
	var state syscall.WaitStatus
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal reaches all threads a little later.
	if _, err := syscall.Wait4(pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("the coordinator did not stop (status %v): %v", state, err)
	}
	hasty, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err := operator.Jobs(hasty)
	requireError(t, err, context.DeadlineExceeded, "coordinator "+shared.address+" was given up before it answered")
	_, err = operator.Watch(client.JobID{Name: "mnist"}).Next(hasty)
	requireError(t, err, context.DeadlineExceeded, shared.address)
}
