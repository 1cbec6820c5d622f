package client

import (
	"encoding/hex"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
)

// State is where a job is in its life.
type State string

// The states. Unknown is one that this version does not know.
const (
	Forming  State = "forming"
	Running  State = "running"
	Finished State = "finished"
	Failed   State = "failed"
	Queued   State = "queued"
	Unknown  State = "unknown"
)

// HasEnded tells whether the job will not change any more.
func (s State) HasEnded() bool { return s == Finished || s == Failed }

func stateOf(state farandolev1.JobState) State {
	switch state {
	case farandolev1.JobState_JOB_STATE_FORMING:
		return Forming
	case farandolev1.JobState_JOB_STATE_RUNNING:
		return Running
	case farandolev1.JobState_JOB_STATE_FINISHED:
		return Finished
	case farandolev1.JobState_JOB_STATE_FAILED:
		return Failed
	case farandolev1.JobState_JOB_STATE_QUEUED:
		return Queued
	}
	return Unknown
}

// Job is a job in short.
type Job struct {
	Tenant, Name string
	State        State
	// Reason is one sentence: why the job is in this state.
	Reason           string
	Epoch            uint64
	Size, WantedSize int
	Created          time.Time
	// BatchesPerSecond counts collectives, over the last heartbeats of rank 0.
	BatchesPerSecond float64
	// StepsPerSecond counts over the last half minute of rank 0; nil if they were not measured, or not yet.
	StepsPerSecond *float64
	// LastStall is the last stall sentence of this epoch, and LastStallAt when it was written; "" and the zero time if
	// there was none.
	LastStall   string
	LastStallAt time.Time
	// Elastic is nil for a job that is not.
	Elastic *Elastic
	// GPUs is nil if no worker has said anything of its GPU in this epoch.
	GPUs *GPUs
	// Queue is nil for a job that is not queued.
	Queue *QueuePlace
}

// QueuePlace is the place of a launch that waits until its tenant's quota has room for it.
type QueuePlace struct {
	// Position counts from 1, Length those that wait for the same room: of the tenant, or of its cohort.
	Position, Length int
	// Reason is one sentence: why it does not start now.
	Reason string
}

// Blocker gives the sentence that tells what the job waits for; "" if it waits for nothing that the coordinator knows. A
// running job's is its last stall, which may be over: LastStallAt tells its age.
func (j Job) Blocker() string {
	switch j.State {
	case Forming, Queued:
		return j.Reason
	case Running:
		return j.LastStall
	}
	return ""
}

// Elastic is what only elastic jobs have.
type Elastic struct {
	MinSize, MaxSize int
	// Waiting counts the workers that wait to join while an epoch runs, Resets the epochs that ended by a loss.
	Waiting, Resets int
}

// GPUs adds up what the workers of an epoch have told of their GPUs.
type GPUs struct {
	Count int
	// Telling counts those that say how busy they are; BusyPercent is the mean of what they say, 0 to 100.
	Telling                           int
	BusyPercent                       float64
	MemoryUsedBytes, MemoryTotalBytes uint64
}

// GPU is the last report about one worker's GPU.
type GPU struct {
	Name string
	// BusyPercent is -1 if it does not tell.
	BusyPercent                       int
	MemoryUsedBytes, MemoryTotalBytes uint64
}

// Worker is one process of a job.
type Worker struct {
	// Rank means nothing in the state "waiting".
	Rank int
	// State is "live", "draining", "left", "lost: ...", "ended", "returning" or "waiting".
	State                         string
	Incarnation, HostID, Hostname string
	PID                           int
	// Silence is the time since its last sign of life.
	Silence time.Duration
	Batches uint64
	// Missed: it had left before the program of another worker failed, which may have missed it.
	Missed bool
	// GPU is nil if it has said nothing of one.
	GPU *GPU
}

// Event is one decision about a job.
type Event struct {
	At       time.Time
	Sentence string
}

// BarredHost is a host on which workers failed; the coordinator refuses joins from it for a while.
type BarredHost struct {
	Hostname string
	Failures int
	For      time.Duration
}

// Details is a job with its workers and its history.
type Details struct {
	Job
	Workers []Worker
	// History has the newest 256 events, the oldest first.
	History []Event
	// NegotiationMessages counts messages about tensors in this epoch; it is constant in the steady state.
	NegotiationMessages uint64
	BarredHosts         []BarredHost
	// CheckpointRequest is the last one, nil if nobody has asked.
	CheckpointRequest *CheckpointRequest
}

// Checkpoint is a row of a job's catalogue.
type Checkpoint struct {
	Name string
	Step int64
	// FencingToken is the one it was written under; a later grant has a greater one.
	FencingToken uint64
	// Path is absolute, on the writer's host.
	Path      string
	SizeBytes uint64
	// SHA256 is of the file, in hexadecimal digits.
	SHA256    string
	Committed time.Time
	// Epoch and Rank are the writer's.
	Epoch uint64
	Rank  int
}

// CheckpointRequest: somebody has asked a job's program for a checkpoint.
type CheckpointRequest struct {
	// Number counts the job's requests, from 1.
	Number uint64
	// Asker is the one who asked first: "token 0123456789abcdef (operator of tenant vision)".
	Asker string
	Since time.Time
	// Times tells how often it was asked for; all askers get the same checkpoint.
	Times int
	// Told is when all ranks of the program were told; the zero time if they have not called CheckpointRequested since.
	Told time.Time
	// Over is the zero time while the request is pending. Afterwards there is either a Checkpoint or a Failure, a sentence
	// that says why there is none.
	Over       time.Time
	Checkpoint *Checkpoint
	Failure    string
}

// IsPending tells whether the checkpoint may still come.
func (r CheckpointRequest) IsPending() bool { return r.Over.IsZero() }

// timeOf gives the zero time for 0.
func timeOf(unixMs int64) time.Time {
	if unixMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unixMs)
}

func milliseconds(count uint64) time.Duration { return time.Duration(count) * time.Millisecond }

func jobOf(from *farandolev1.JobSummary) Job {
	job := Job{
		Tenant: from.GetTenant(), Name: from.GetJob(), State: stateOf(from.GetState()), Reason: from.GetReason(),
		Epoch: from.GetEpoch(), Size: int(from.GetSize()), WantedSize: int(from.GetWantedSize()),
		Created: timeOf(from.GetCreatedUnixMs()), BatchesPerSecond: from.GetBatchesPerSecond(),
		LastStall: from.GetLastStall(), LastStallAt: timeOf(from.GetLastStallUnixMs()),
	}
	if bounds := from.GetElastic(); bounds != nil {
		job.Elastic = &Elastic{int(bounds.GetMinSize()), int(bounds.GetMaxSize()), int(from.GetWaiting()), int(from.GetResets())}
	}
	if place := from.GetQueue(); place != nil {
		job.Queue = &QueuePlace{int(place.GetPosition()), int(place.GetLength()), place.GetReason()}
	}
	if gpus := from.GetGpus(); gpus != nil {
		job.GPUs = &GPUs{int(gpus.GetGpus()), int(gpus.GetTellingGpus()), gpus.GetBusyPercent(), gpus.GetMemoryUsedBytes(), gpus.GetMemoryTotalBytes()}
	}
	job.StepsPerSecond = from.StepsPerSecond
	return job
}

func workerOf(from *farandolev1.WorkerStatus) Worker {
	member := from.GetMember()
	worker := Worker{
		Rank: int(from.GetRank()), State: from.GetState(), Incarnation: member.GetIncarnation(), HostID: member.GetHostId(),
		Hostname: member.GetHostname(), PID: int(member.GetPid()), Silence: milliseconds(from.GetSilenceMs()),
		Batches: from.GetBatches(), Missed: from.GetMissed(),
	}
	if gpu := from.GetGpu(); gpu != nil {
		worker.GPU = &GPU{gpu.GetName(), -1, gpu.GetMemoryUsedBytes(), gpu.GetMemoryTotalBytes()}
		if gpu.BusyPercent != nil {
			worker.GPU.BusyPercent = int(gpu.GetBusyPercent())
		}
	}
	return worker
}

func detailsOf(from *farandolev1.GetJobResponse) Details {
	details := Details{Job: jobOf(from.GetSummary()), NegotiationMessages: from.GetNegotiationMessages()}
	for _, worker := range from.GetWorkers() {
		details.Workers = append(details.Workers, workerOf(worker))
	}
	for _, entry := range from.GetHistory() {
		details.History = append(details.History, Event{timeOf(entry.GetAtUnixMs()), entry.GetSentence()})
	}
	for _, host := range from.GetBarredHosts() {
		details.BarredHosts = append(details.BarredHosts, BarredHost{host.GetHostname(), int(host.GetFailures()), milliseconds(host.GetBarredMs())})
	}
	if wanted := from.GetWantedCheckpoint(); wanted != nil {
		request := requestOf(wanted)
		details.CheckpointRequest = &request
	}
	return details
}

func requestOf(from *farandolev1.WantedCheckpoint) CheckpointRequest {
	request := CheckpointRequest{
		Number: from.GetSerial(), Asker: from.GetAsker(), Since: timeOf(from.GetSinceUnixMs()), Times: int(from.GetTimes()),
		Told: timeOf(from.GetToldUnixMs()), Over: timeOf(from.GetOverUnixMs()), Failure: from.GetFailure(),
	}
	if written := from.GetCheckpoint(); written != nil {
		checkpoint := checkpointOf(written)
		request.Checkpoint = &checkpoint
	}
	return request
}

func checkpointOf(from *farandolev1.Checkpoint) Checkpoint {
	return Checkpoint{
		Name: from.GetName(), Step: from.GetStep(), FencingToken: from.GetToken(), Path: from.GetPath(),
		SizeBytes: from.GetSizeBytes(), SHA256: hex.EncodeToString(from.GetSha256()),
		Committed: timeOf(from.GetCommittedUnixMs()), Epoch: from.GetEpoch(), Rank: int(from.GetRank()),
	}
}
