package client

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farandole.dev/go/client"
)

func TestAQuotaIsSetPartByPart(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	root := shared.open(nil)
	text, err := root.CreateTenant(ctx, client.Tenant{Name: "vision", MaxJobs: 2, MaxWorkers: 8})
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		change client.QuotaChange
		then   client.Quota
	}{
		{
			client.QuotaChange{Cohort: client.Set("research"), Weight: client.Set[uint32](3), Borrow: client.Set[uint32](5)},
			client.Quota{MaxJobs: 2, MaxWorkers: 8, Cohort: "research", Weight: 3, Borrow: 5, MaxStoreBytes: 1 << 30},
		}, {
			client.QuotaChange{MaxJobs: client.Set[uint32](7), MaxWorkers: client.Set[uint32](9), MaxStoreBytes: client.Set[uint64](5 << 32)},
			client.Quota{MaxJobs: 7, MaxWorkers: 9, Cohort: "research", Weight: 3, Borrow: 5, MaxStoreBytes: 5 << 32},
		}, {
			client.QuotaChange{MaxJobs: client.Set[uint32](0), Cohort: client.Set(""), Borrow: client.Set[uint32](0)},
			client.Quota{MaxJobs: 64, MaxWorkers: 9, Weight: 3, MaxStoreBytes: 5 << 32},
		},
	}
	for _, step := range steps {
		tenant, err := root.SetQuota(ctx, "vision", step.change)
		if err != nil || tenant.Name != "vision" || tenant.Quota != step.then {
			t.Fatalf("it is %+v, not %+v: %v", tenant, step.then, err)
		}
	}
	admin := shared.open(func(options *client.Options) { options.Token = client.Token(text) })
	own, err := admin.Tenants(ctx)
	if err != nil || len(own) != 1 || own[0].Quota != steps[2].then || own[0].Tokens != 1 || time.Since(own[0].Created) > time.Hour {
		t.Fatalf("the tenant sees %+v: %v", own, err)
	}
	_, err = admin.SetQuota(ctx, "vision", client.QuotaChange{MaxJobs: client.Set[uint32](9)})
	requireError(t, err, client.ErrDenied, "refused to set the quota of tenant vision")
	_, err = root.SetQuota(ctx, "nobody", client.QuotaChange{})
	requireError(t, err, client.ErrNotFound, "nobody")
	_, err = root.SetQuota(ctx, "vision", client.QuotaChange{Weight: client.Set[uint32](1001)})
	requireError(t, err, client.ErrMismatch, "weight")
	var names []string
	root.EachTenant(ctx, 1)(func(tenant client.TenantRecord, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tenant.Name)
		return true
	})
	if !slices.Equal(names, []string{"default", "vision"}) {
		t.Fatalf("the pages have %v", names)
	}
}

func TestATimelineIsRecordedAndRead(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	shared.startJob("net", []string{"--min-np", "1", "--max-np", "2"}, roleVariable+"=shrink", folderVariable+"="+t.TempDir())
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	watch := operator.Watch(id)
	follow(t, ctx, watch, "ran with 2 ranks", func(job client.Details) bool { return job.State == client.Running && job.Size == 2 })
	_, err := operator.Timeline(ctx, id)
	requireError(t, err, client.ErrNotFound, "has recorded no timeline")
	_, err = operator.StopTimeline(ctx, id)
	requireError(t, err, client.ErrNotRunning, "refused to stop a timeline of job net")
	if told, err := operator.StartTimeline(ctx, id, true); err != nil || !strings.Contains(told, "timeline 1 of job net begins") {
		t.Fatalf("%q: %v", told, err)
	}
	_, err = operator.StartTimeline(ctx, id, true)
	requireError(t, err, client.ErrNotRunning, "refused to start a timeline of job net")
	var found client.Timeline
	for events := 0; events < 1000; {
		if found, err = operator.Timeline(ctx, id); err != nil {
			t.Fatal(err)
		}
		events = 0
		for _, part := range found.Parts {
			events += part.Events
		}
	}
	if !found.IsOn || found.Recording != 1 || time.Since(found.Started) > time.Hour || found.Parts[0].Hostname == "" {
		t.Fatalf("the timeline is %d, since %v", found.Recording, found.Started)
	}
	if told, err := operator.StopTimeline(ctx, id); err != nil || !strings.Contains(told, "timeline 1 of job net has ended") {
		t.Fatalf("%q: %v", told, err)
	}
	if found, err = operator.Timeline(ctx, id); err != nil || found.IsOn {
		t.Fatalf("it goes on: %v", err)
	}
	var file bytes.Buffer
	if err := found.WriteTrace(&file); err != nil {
		t.Fatal(err)
	}
	// It is what the command writes.
	path := filepath.Join(t.TempDir(), "trace.json")
	command := exec.Command(checkout(t, ".venv/bin/farandole"), "timeline", "get", "net", "-o", path, "--coordinator", shared.address, "--token-file", shared.tokenFile)
	if told, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	if written, err := os.ReadFile(path); err != nil || !bytes.Equal(written, file.Bytes()) || !bytes.Contains(written, []byte("CYCLE_START")) {
		t.Fatalf("the command writes %d bytes, the client %d: %v", len(written), file.Len(), err)
	}
}

func TestTheRanksTellWhoWaitsForWhom(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	shared.stalledJob("net")
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	stalled := follow(t, ctx, operator.Watch(id), "stalled", func(job client.Details) bool { return job.LastStall != "" })
	found, err := operator.Diagnose(ctx, id, client.DiagnoseOptions{NoStacks: true})
	if err != nil || !strings.Contains(found.Sentence, "'late'") || found.Epoch != 1 || found.Size != 2 || !found.Stalled.IsZero() {
		t.Fatalf("found is %+v: %v", found, err)
	}
	if len(found.Waits) != 1 || len(found.Ranks) != 2 || len(found.Stacks) != 0 {
		t.Fatalf("found is %+v", found)
	}
	wait := found.Waits[0]
	if wait.Name != "late" || wait.Operation != "allreduce" || wait.Ordinal != 1 || !slices.Equal(wait.Waiting, []int{0}) || !slices.Equal(wait.Missing, []int{1}) || wait.Waited <= 0 {
		t.Fatalf("the wait is %+v", wait)
	}
	first := found.Ranks[0].Evidence
	if first == nil || first.Flight == nil || first.Flight.Rank != 0 || first.Flight.PID != stalled.Workers[0].PID || len(first.Flight.Submissions) != 1 || len(first.Settings) == 0 {
		t.Fatalf("rank 0 tells %+v", first)
	}
	last := first.Flight.Submissions[0]
	if last.Name != "late" || last.Progress != "submitted" || last.Operation != "allreduce" || last.DType != "float32" || last.Bytes != 4 || last.Age <= 0 {
		t.Fatalf("rank 0's last submission is %+v", last)
	}
	full, err := operator.Diagnose(ctx, id, client.DiagnoseOptions{})
	if err != nil || len(full.Ranks) != 2 || len(full.Ranks[0].Evidence.KernelThreads) == 0 || full.Ranks[0].Evidence.AboutStacks == "" {
		t.Fatalf("found is %+v: %v", full, err)
	}
	for {
		found, err := operator.Diagnose(ctx, id, client.DiagnoseOptions{LastStall: true})
		if err == nil {
			if found.Stalled.IsZero() || !strings.Contains(found.Sentence, "'late'") {
				t.Fatalf("of the stall is kept %+v", found)
			}
			return
		}
		requireError(t, err, client.ErrNotFound, "has not stalled")
	}
}

func TestTheRanksTellWhatTensorsCost(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	shared.stalledJob("net")
	operator, id := shared.open(nil), client.JobID{Name: "net"}
	follow(t, ctx, operator.Watch(id), "stalled", func(job client.Details) bool { return job.LastStall != "" })
	told, err := operator.Collectives(ctx, id)
	if err != nil || told.Epoch != 1 || told.Size != 2 || told.Answered != 2 || told.IsOver || time.Since(told.Asked) > time.Hour || len(told.Silent) != 0 {
		t.Fatalf("told is %+v: %v", told, err)
	}
	if told.Found != 1 || len(told.Costs) != 1 || told.LeftOut != 0 || told.Moving != 0 {
		t.Fatalf("told is %+v", told)
	}
	cost := told.Costs[0]
	if cost.Name != "late" || cost.Operation != "allreduce" || cost.Waited <= 0 || cost.Waited != told.Waited || cost.WaitPercent != 100 || cost.LongestWaitRank != 0 || cost.LongestWait <= 0 || cost.MeanWait <= 0 {
		t.Fatalf("the cost is %+v", cost)
	}
	_, err = operator.Collectives(ctx, client.JobID{Name: "nothing"})
	requireError(t, err, client.ErrNotFound, "refused to ask for the collectives of job nothing")
}
