package client

import (
	"context"
	"strings"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
)

// DiagnoseOptions say what Diagnose asks for.
type DiagnoseOptions struct {
	// NoStacks leaves out the stacks of the programs.
	NoStacks bool
	// LastStall: not now, but as the coordinator has asked by itself when the job stalled last.
	LastStall bool
}

// Findings are what the ranks of a job do, or did last.
type Findings struct {
	// Sentence says which collective is missing on whom; "": nobody waits for anybody.
	Sentence string
	// Waits has the longest first, at most 16; Stacks the greatest group first.
	Waits  []Wait
	Stacks []StackGroup
	// Ranks are ascending; of a large job those that others wait for, and 64 others at most.
	Ranks []RankFindings
	Epoch uint64
	Size  int
	// Stalled is when the job stalled and the coordinator asked by itself; the zero time: it was asked to.
	Stalled time.Time
}

// Wait is a collective that some ranks have submitted and others have not.
type Wait struct {
	Name string
	// Operation is "allreduce" and so on.
	Operation string
	// Group is the number of its process set; 0: all ranks.
	Group uint32
	// Ordinal is how often the name was submitted in this epoch, this time included.
	Ordinal uint32
	// Waiting and Missing are ranks. Nobody is missing: its data moves, or the last steps of the ranks were not read.
	Waiting, Missing []int
	// Waited is of the rank that has waited longest.
	Waited time.Duration
}

// Frame is a call on a thread's stack.
type Frame struct {
	Function, File string
	// Line is 0 if it is not known.
	Line int
	// Module is, of compiled code, the name of the program or library.
	Module string
}

// StackGroup has ranks whose main threads have the same stack.
type StackGroup struct {
	Ranks []int
	// Frames has the innermost first.
	Frames []Frame
	// IsDominant: it has most ranks of all.
	IsDominant bool
	// NativeFrames are of compiled code: the calls of the innermost of Frames, or all of the stack.
	NativeFrames []Frame
}

// RankFindings are what one rank has answered.
type RankFindings struct {
	Rank int
	// Evidence is nil if none came; then Silence says why.
	Evidence *Evidence
	Silence  string
}

// Evidence is of a worker's process about itself.
type Evidence struct {
	Epoch uint64
	// Flight is nil where it has no flight recorder.
	Flight  *Flight
	Threads []Thread
	// AboutStacks says in one sentence how the stacks were read, or why there are none.
	AboutStacks string
	// AboutNativeStacks is the same of the native frames.
	AboutNativeStacks string
	KernelThreads     []KernelThread
	// Settings are NAME=value of the library's settings that have no secrets, and versions of programs.
	Settings []string
}

// Flight is a rank's flight recorder: its latest submissions.
type Flight struct {
	Epoch uint64
	// Rank is -1 if no epoch has begun.
	Rank, Size, PID int
	// Unrecorded counts submissions for which there was no room.
	Unrecorded uint64
	// Submissions has the oldest first.
	Submissions []Submission
}

// Submission is a collective that a rank has submitted.
type Submission struct {
	// Name is without its middle if it is long.
	Name string
	// Ordinal is how often the name was submitted in this epoch, this time included: equal on all ranks for those that
	// belong together.
	Ordinal uint32
	// Progress is "submitted", "started", "finished", "failed" (ranks disagree) or "ended" (the epoch ended before).
	Progress string
	// Operation is "allreduce" and so on, DType "float32" and so on.
	Operation, DType string
	Bytes            uint64
	Group            uint32
	// Batch is equal on all ranks; 0: none, as for small collectives that all ranks computed at once.
	Batch   uint64
	IsOnGPU bool
	// Age is from its submission until this was read; StartedAfter and EndedAfter are from its submission, too.
	Age, StartedAfter, EndedAfter time.Duration
}

// Thread is a thread of a worker's program.
type Thread struct {
	// Name is "MainThread" for the main thread of Python; "": not known.
	Name string
	TID  uint32
	// Frames has the innermost first.
	Frames []Frame
	// NativeFrames are of compiled code: the calls of the innermost of Frames, or all of the stack.
	NativeFrames []Frame
	// Alike: so many threads more have the same native frames, and are left out.
	Alike int
	// WhyNoNative says why it has no native frames; "" if it has, or if none of the process were read.
	WhyNoNative string
}

// KernelThread is a thread as the kernel knows it.
type KernelThread struct {
	TID  uint32
	Name string
	// State is "running", "sleeping", "in the kernel" or "stopped".
	State string
	// Call is the system call that it is in; "": none, or not known.
	Call string
}

// Diagnose asks the workers of a job what they do, which takes 4 s at most: their latest collectives, who waits for whom,
// and the stacks of their programs; those who ask within 4 s share an answer. Of a job that has ended it gives what they did
// last.
//
// ErrNotFound: the tenant has no such job, or it has not stalled. ErrNotRunning: no rank answered when it stalled. ErrQuota:
// several such calls of the job wait already.
func (c *Client) Diagnose(ctx context.Context, id JobID, options DiagnoseOptions) (Findings, error) {
	request := &farandolev1.DiagnoseRequest{
		Job: id.Name, Tenant: id.Tenant, Stacks: !options.NoStacks, LastStall: options.LastStall,
	}
	answer, err := call(ctx, c, c.options.Patience, c.monitor.Diagnose, request, "refused to diagnose "+id.String())
	if err != nil {
		return Findings{}, err
	}
	return findingsOf(answer), nil
}

func findingsOf(from *farandolev1.DiagnoseResponse) Findings {
	findings := Findings{
		Sentence: from.GetSentence(), Epoch: from.GetEpoch(), Size: int(from.GetSize()), Stalled: timeOf(from.GetStalledUnixMs()),
	}
	for _, wait := range from.GetWaits() {
		findings.Waits = append(findings.Waits, Wait{
			Name: wait.GetName(), Operation: operationOf(wait.GetOp()), Group: wait.GetGroup(), Ordinal: wait.GetOrdinal(),
			Waiting: ranksOf(wait.GetWaiting()), Missing: ranksOf(wait.GetMissing()), Waited: microseconds(wait.GetWaitedUs()),
		})
	}
	for _, group := range from.GetStacks() {
		findings.Stacks = append(findings.Stacks, StackGroup{
			ranksOf(group.GetRanks()), framesOf(group.GetFrames()), group.GetIsDominant(), framesOf(group.GetNativeFrames()),
		})
	}
	for _, rank := range from.GetRanks() {
		findings.Ranks = append(findings.Ranks, RankFindings{int(rank.GetRank()), evidenceOf(rank.GetEvidence()), rank.GetSilence()})
	}
	return findings
}

func evidenceOf(from *farandolev1.Evidence) *Evidence {
	if from == nil {
		return nil
	}
	evidence := &Evidence{
		Epoch: from.GetEpoch(), Flight: flightOf(from.GetFlight()), AboutStacks: from.GetAboutStacks(), Settings: from.GetSettings(),
		AboutNativeStacks: from.GetAboutNativeStacks(),
	}
	for _, thread := range from.GetThreads() {
		evidence.Threads = append(evidence.Threads, Thread{
			thread.GetName(), thread.GetTid(), framesOf(thread.GetFrames()), framesOf(thread.GetNativeFrames()), int(thread.GetAlike()),
			thread.GetWhyNoNative(),
		})
	}
	for _, thread := range from.GetKernelThreads() {
		evidence.KernelThreads = append(evidence.KernelThreads, KernelThread{thread.GetTid(), thread.GetName(), thread.GetState(), thread.GetCall()})
	}
	return evidence
}

func flightOf(from *farandolev1.FlightRecords) *Flight {
	if from == nil {
		return nil
	}
	flight := &Flight{
		Epoch: from.GetEpoch(), Rank: -1, Size: int(from.GetSize()), PID: int(from.GetPid()), Unrecorded: from.GetUnrecorded(),
	}
	if from.Rank != nil {
		flight.Rank = int(from.GetRank())
	}
	for _, record := range from.GetRecords() {
		submission := Submission{
			Ordinal: record.GetOrdinal(), Progress: wordOf(farandolev1.FlightRecord_State_name, int32(record.GetState()), "STATE_"), Operation: operationOf(record.GetOp()),
			DType: dtypeOf(record.GetDtype()), Bytes: record.GetBytes(), Group: record.GetGroup(), Batch: record.GetBatch(),
			IsOnGPU: record.GetIsOnGpu(), Age: microseconds(record.GetAgeUs()), StartedAfter: microseconds(record.GetStartedAfterUs()),
			EndedAfter: microseconds(record.GetEndedAfterUs()),
		}
		if index := int(record.GetName()); index < len(from.GetNames()) {
			submission.Name = from.GetNames()[index]
		}
		flight.Submissions = append(flight.Submissions, submission)
	}
	return flight
}

func framesOf(from []*farandolev1.StackFrame) []Frame {
	frames := make([]Frame, 0, len(from))
	for _, frame := range from {
		frames = append(frames, Frame{frame.GetFunction(), frame.GetFile(), int(frame.GetLine()), frame.GetModule()})
	}
	return frames
}

func ranksOf(from []uint32) []int {
	ranks := make([]int, 0, len(from))
	for _, rank := range from {
		ranks = append(ranks, int(rank))
	}
	return ranks
}

func operationOf(op farandolev1.OpType) string {
	return wordOf(farandolev1.OpType_name, int32(op), "OP_TYPE_")
}

// wordOf gives the name of an enum's value, as people write it; "unknown": this version does not know it.
func wordOf(names map[int32]string, number int32, prefix string) string {
	name, found := names[number]
	if !found {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(name, prefix))
}

// In the order of the proto's numbers.
var dtypes = []string{
	"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool", "uint16", "float8_e4m3fn",
	"float8_e5m2",
}

func dtypeOf(dtype farandolev1.DType) string {
	if dtype < 0 || int(dtype) >= len(dtypes) {
		return "unknown"
	}
	return dtypes[dtype]
}

func microseconds(count uint64) time.Duration { return time.Duration(count) * time.Microsecond }
