package client

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	nameLine = `{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"allreduce.\"ts\":5"}}`
	spanLine = `{"ph":"X","name":"ALLREDUCE","pid":0,"tid":1,"ts":1000.250,"dur":2.000,"args":{"ts":7}}`
)

func packedPart(rank int, host, lines string, aheadNS, errorNS, sentNS int64) TimelinePart {
	var packed bytes.Buffer
	packer := zlib.NewWriter(&packed)
	_, _ = packer.Write([]byte(lines))
	_ = packer.Close()
	return TimelinePart{
		Number: 1, Rank: rank, HostID: host, Events: 1, packed: packed.Bytes(), size: uint32(len(lines)), sentNS: sentNS,
		aheadNS: aheadNS, errorNS: errorNS,
	}
}

type trace struct {
	OtherData struct {
		Error int `json:"error_between_hosts_us"`
		Lost  int `json:"lost_events"`
	} `json:"otherData"`
	TraceEvents []struct {
		TS   float64        `json:"ts"`
		Args map[string]any `json:"args"`
	} `json:"traceEvents"`
}

func traceOf(t *testing.T, timeline Timeline) trace {
	t.Helper()
	var file bytes.Buffer
	if err := timeline.WriteTrace(&file); err != nil {
		t.Fatal(err)
	}
	var read trace
	if err := json.Unmarshal(file.Bytes(), &read); err != nil {
		t.Fatalf("%v: %s", err, file.String())
	}
	return read
}

func TestHostsStandInTheCoordinatorsTime(t *testing.T) {
	// The second exchange of host a was the better one.
	read := traceOf(t, Timeline{Dropped: 4, Forgotten: 5, Parts: []TimelinePart{
		packedPart(0, "a", nameLine+",\n"+spanLine, 9_000_000, 90_000, 0),
		packedPart(1, "a", spanLine, 5_000_000, 1_000, 0),
		packedPart(2, "b", spanLine, -500_100, 2_000, 0),
	}})
	events := read.TraceEvents
	if len(events) != 4 || events[0].Args["name"] != `allreduce."ts":5` || events[1].TS != 6000.25 || events[2].TS != 6000.25 || events[3].TS != 500.15 {
		t.Fatalf("the events are %+v", events)
	}
	if read.OtherData.Error != 3 || read.OtherData.Lost != 9 {
		t.Fatalf("it says besides %+v", read.OtherData)
	}
}

func TestTheErrorGrowsWithTheDistanceFromTheBestExchange(t *testing.T) {
	timeline := Timeline{Parts: []TimelinePart{
		packedPart(0, "a", spanLine, 0, 1_000, 0), packedPart(0, "a", spanLine, 0, 50_000_000, 100_000_000_000),
		packedPart(1, "b", spanLine, 0, 1_000, 0),
	}}
	if found := timeline.ErrorBetweenHosts(); found != 2*time.Microsecond+10*time.Millisecond {
		t.Fatalf("the error is %v", found)
	}
}

func TestEachNameIsWrittenOnce(t *testing.T) {
	process := `{"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0","start_time_since_epoch_in_micros":`
	lines := func(at string) string { return process + at + "}},\n" + nameLine + ",\n" + spanLine }
	read := traceOf(t, Timeline{Parts: []TimelinePart{packedPart(0, "a", lines("1"), 0, 1, 0), packedPart(0, "a", lines("2"), 0, 1, 0)}})
	if len(read.TraceEvents) != 4 {
		t.Fatalf("the events are %+v", read.TraceEvents)
	}
}

func TestAHostWithoutAClockIsLeftOut(t *testing.T) {
	timeline := Timeline{Parts: []TimelinePart{packedPart(0, "a", spanLine, 0, 0, 0), packedPart(1, "b", spanLine, 0, 1, 0)}}
	if read := traceOf(t, timeline); timeline.LeftOut() != 1 || len(read.TraceEvents) != 1 {
		t.Fatalf("%d are left out of %+v", timeline.LeftOut(), read.TraceEvents)
	}
}

func TestATimelineWithoutEventsIsAFile(t *testing.T) {
	first := TimelinePart{Number: 1, HostID: "a", errorNS: 1}
	if read := traceOf(t, Timeline{Parts: []TimelinePart{first}}); len(read.TraceEvents) != 0 {
		t.Fatalf("the events are %+v", read.TraceEvents)
	}
}

func TestAPartThatIsBrokenIsNamed(t *testing.T) {
	good := packedPart(3, "a", spanLine, 0, 1, 0)
	noise, short, long, large := good, good, good, packedPart(3, "a", strings.Repeat("x", 9<<20), 0, 1, 0)
	noise.packed, short.size, long.size = []byte("nothing"), 5, 500
	for _, part := range []TimelinePart{noise, short, long, large} {
		err := Timeline{Parts: []TimelinePart{part}}.WriteTrace(&bytes.Buffer{})
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "of rank 3, cannot be unpacked") {
			t.Fatalf("the error is %v", err)
		}
	}
}
