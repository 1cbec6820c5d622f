package client

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
	"farandole.dev/go/internal/fault"
)

const (
	// timeline.proto.
	mostLinesBytes = 8 << 20
	// Of two quartz clocks, some times as much as they usually have.
	mostDriftPerMillion = 100
)

var eventTime = regexp.MustCompile(`"ts":([0-9]+)(?:\.([0-9]+))?`)

// TimelinePart has some events of a rank.
type TimelinePart struct {
	// Number is from 1, ascending.
	Number           uint64
	Rank             int
	HostID, Hostname string
	// Events counts them.
	Events int

	packed []byte
	size   uint32
	// The host's clock when it was sent; by how much the coordinator's is ahead of it, and how much that may be wrong.
	sentNS, aheadNS, errorNS int64
}

// Lines gives the events, each as JSON, with the times of the host's clock. ErrCorrupt: they cannot be unpacked.
func (p TimelinePart) Lines() ([]string, error) {
	if len(p.packed) == 0 && p.size == 0 {
		return nil, nil
	}
	text, err := p.unpack()
	if err != nil || len(text) != int(p.size) {
		return nil, fault.New(fault.DataLoss, fmt.Sprintf("part %d of the timeline, of rank %d, cannot be unpacked", p.Number, p.Rank))
	}
	return strings.Split(string(text), ",\n"), nil
}

func (p TimelinePart) unpack() ([]byte, error) {
	unpacker, err := zlib.NewReader(bytes.NewReader(p.packed))
	if err != nil {
		return nil, err
	}
	defer unpacker.Close()
	return io.ReadAll(io.LimitReader(unpacker, int64(min(p.size, mostLinesBytes))+1))
}

// Timeline is what the workers of a job have recorded so far.
type Timeline struct {
	// Recording counts the job's recordings, from 1.
	Recording uint64
	// IsOn: it goes on.
	IsOn    bool
	Started time.Time
	Parts   []TimelinePart
	// Dropped events came faster than the ranks could send them; the coordinator gave up Forgotten ones for later ones.
	Dropped, Forgotten uint64
}

// StartTimeline has all workers of a job record what their tensors wait for, also those of later epochs, and gives a
// sentence that says so. markCycles: also the beginning of each batch. A new recording replaces the last one. Needs a token
// of an operator. ErrNotFound: the tenant has no such job. ErrNotRunning: it has ended, or records already.
func (c *Client) StartTimeline(ctx context.Context, id JobID, markCycles bool) (string, error) {
	return c.record(ctx, &farandolev1.RecordTimelineRequest{
		Tenant: id.Tenant, Job: id.Name, IsOn: true, MarksCycles: markCycles, IdempotencyKey: newKey(),
	}, "refused to start a timeline of "+id.String())
}

// StopTimeline ends the recording, with each rank's last events, and gives a sentence that says so. Needs a token of an
// operator. ErrNotFound: the tenant has no such job. ErrNotRunning: it records nothing.
func (c *Client) StopTimeline(ctx context.Context, id JobID) (string, error) {
	return c.record(ctx, &farandolev1.RecordTimelineRequest{
		Tenant: id.Tenant, Job: id.Name, IdempotencyKey: newKey(),
	}, "refused to stop a timeline of "+id.String())
}

func (c *Client) record(ctx context.Context, request *farandolev1.RecordTimelineRequest, refusal string) (string, error) {
	answer, err := call(ctx, c, c.options.Patience, c.admin.RecordTimeline, request, refusal)
	return answer.GetSentence(), err
}

// Timeline gives the events that a job has recorded so far, or recorded last, at most 32 MiB. They can be read for an hour
// after the job's end. ErrNotFound: the tenant has no such job, or it has recorded nothing.
func (c *Client) Timeline(ctx context.Context, id JobID) (Timeline, error) {
	var found Timeline
	request := &farandolev1.GetTimelineRequest{Job: id.Name, Tenant: id.Tenant}
	for {
		answer, err := call(ctx, c, c.options.Patience, c.monitor.GetTimeline, request, "refused to give the timeline of "+id.String())
		if err != nil {
			return Timeline{}, err
		}
		if found.Recording != 0 && found.Recording != answer.GetRecording() {
			// A new recording has replaced it meanwhile.
			found, request.From = Timeline{}, 0
			continue
		}
		parts := found.Parts
		for _, part := range answer.GetParts() {
			parts = append(parts, partOf(part))
		}
		found = Timeline{
			Recording: answer.GetRecording(), IsOn: answer.GetIsOn(), Started: timeOf(answer.GetStartedUnixMs()), Parts: parts,
			Dropped: answer.GetDropped(), Forgotten: answer.GetForgotten(),
		}
		if request.From = answer.GetNext(); request.From == 0 {
			return found, nil
		}
	}
}

func partOf(from *farandolev1.TimelinePart) TimelinePart {
	chunk := from.GetChunk()
	return TimelinePart{
		Number: from.GetNumber(), Rank: int(from.GetRank()), HostID: from.GetHostId(), Hostname: from.GetHostname(),
		Events: int(chunk.GetEvents()), packed: chunk.GetLinesZlib(), size: chunk.GetLinesBytes(), sentNS: chunk.GetSentNs(),
		aheadNS: chunk.GetAheadNs(), errorNS: int64(chunk.GetErrorNs()),
	}
}

// hostClock is a host's clock against the coordinator's, by the best exchange that any of its ranks had. error 0: there was
// none.
type hostClock struct{ ahead, error, at, first, last int64 }

// mostError is over all parts of the host.
func (h *hostClock) mostError() int64 {
	age := max(h.at-h.first, h.first-h.at, h.last-h.at, h.at-h.last)
	return h.error + age/1_000_000*mostDriftPerMillion
}

func (t Timeline) clocks() map[string]*hostClock {
	clocks := map[string]*hostClock{}
	for _, part := range t.Parts {
		clock := clocks[part.HostID]
		if clock == nil {
			clock = &hostClock{first: part.sentNS, last: part.sentNS}
			clocks[part.HostID] = clock
		}
		clock.first, clock.last = min(clock.first, part.sentNS), max(clock.last, part.sentNS)
		if part.errorNS != 0 && (clock.error == 0 || part.errorNS < clock.error) {
			clock.ahead, clock.error, clock.at = part.aheadNS, part.errorNS, part.sentNS
		}
	}
	return clocks
}

// ErrorBetweenHosts is the most by which times of different hosts are wrong against each other; 0: there is one host.
func (t Timeline) ErrorBetweenHosts() time.Duration {
	var worst []int64
	for _, clock := range t.clocks() {
		worst = append(worst, clock.mostError())
	}
	if len(worst) < 2 {
		return 0
	}
	slices.Sort(worst)
	return time.Duration(worst[len(worst)-1] + worst[len(worst)-2])
}

// LeftOut counts the events that WriteTrace leaves out, since their hosts' clocks were not compared with the coordinator's
// yet.
func (t Timeline) LeftOut() int {
	count, clocks := 0, t.clocks()
	for _, part := range t.Parts {
		if clocks[part.HostID].error == 0 {
			count += part.Events
		}
	}
	return count
}

// WriteTrace writes all of it as a file for Perfetto and chrome://tracing (JSON), in the coordinator's time, as farandole
// timeline get does. ErrCorrupt: a part cannot be unpacked.
func (t Timeline) WriteTrace(to io.Writer) error {
	file := bufio.NewWriter(to)
	fmt.Fprintf(file, `{"displayTimeUnit":"ms","otherData":{"clock":"the coordinator's, Unix time","error_between_hosts_us":%d,"lost_events":%d},"traceEvents":[`,
		t.ErrorBetweenHosts().Microseconds(), t.Dropped+t.Forgotten)
	separator, clocks := "\n", t.clocks()
	// Each part has the names of its rows and process.
	named := map[string]bool{}
	for _, part := range t.Parts {
		clock := clocks[part.HostID]
		if clock.error == 0 {
			continue
		}
		lines, err := part.Lines()
		if err != nil {
			return err
		}
		for _, line := range lines {
			if strings.HasPrefix(line, `{"ph":"M"`) {
				// It says besides when it was written.
				what, _, _ := strings.Cut(line, `,"start_time_since_epoch`)
				if named[what] {
					continue
				}
				named[what] = true
			}
			file.WriteString(separator)
			file.WriteString(moved(line, clock.ahead))
			separator = ",\n"
		}
	}
	file.WriteString("\n]}\n")
	return file.Flush()
}

// moved gives an event with its time in microseconds, "ts":12.345, moved by so many nanoseconds.
func moved(line string, ahead int64) string {
	found := eventTime.FindStringSubmatchIndex(line)
	if found == nil {
		return line
	}
	micros, err := strconv.ParseInt(line[found[2]:found[3]], 10, 64)
	if err != nil {
		return line
	}
	var thousandths int64
	if found[4] >= 0 {
		if thousandths, err = strconv.ParseInt(line[found[4]:found[5]], 10, 64); err != nil {
			return line
		}
	}
	ns := micros*1000 + thousandths + ahead
	return fmt.Sprintf("%s%d.%03d%s", line[:found[2]], ns/1000, ns%1000, line[found[1]:])
}
