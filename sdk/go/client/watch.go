package client

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Watch follows one job. It belongs to one goroutine, starts none, and needs no end.
type Watch struct {
	client *Client
	id     JobID
	last   *Details
	// Whether the coordinator was asked before.
	asked bool
}

// Watch begins to follow a job; nothing is sent before Next.
func (c *Client) Watch(id JobID) *Watch { return &Watch{client: c, id: id} }

// Next gives the job at once for the first time, and then whenever it has changed: its state, reason, epoch, size, stall,
// history, or its workers' states. Rates and loads alone are no change. After a job that has ended it gives io.EOF.
//
// A coordinator that is away, as while it is restarted, does not end a Watch: Next goes on until the context ends. The
// service has no stream, so Next asks every WatchInterval, also after an error such as ErrNotFound.
func (w *Watch) Next(ctx context.Context) (Details, error) {
	if w.last != nil && w.last.State.HasEnded() {
		return Details{}, io.EOF
	}
	for {
		if w.asked {
			select {
			case <-ctx.Done():
				return Details{}, fmt.Errorf("the watch of %v was given up: %w", w.id, context.Cause(ctx))
			case <-time.After(w.client.options.WatchInterval):
			}
		}
		w.asked = true
		found, err := w.client.job(ctx, w.id, time.Duration(math.MaxInt64))
		if err != nil {
			return Details{}, err
		}
		if w.last == nil || hasChanged(*w.last, found) {
			w.last = &found
			return found, nil
		}
	}
}

func hasChanged(before, after Details) bool {
	sameWorker := func(a, b Worker) bool {
		return a.Rank == b.Rank && a.State == b.State && a.Incarnation == b.Incarnation
	}
	sameElastic := (before.Elastic == nil) == (after.Elastic == nil) && (after.Elastic == nil || *before.Elastic == *after.Elastic)
	return before.State != after.State || before.Reason != after.Reason || before.Epoch != after.Epoch ||
		before.Size != after.Size || before.WantedSize != after.WantedSize || before.LastStall != after.LastStall ||
		!before.LastStallAt.Equal(after.LastStallAt) || !sameElastic ||
		!slices.Equal(before.History, after.History) || !slices.EqualFunc(before.Workers, after.Workers, sameWorker)
}
