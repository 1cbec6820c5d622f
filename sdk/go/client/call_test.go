package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"farandole.dev/go/client/internal/farandolev1"
)

// listing gives a method that gets no answer in time for so many calls, and then one.
func listing(silences int, calls *int) method[farandolev1.ListJobsRequest, farandolev1.ListJobsResponse] {
	return func(context.Context, *farandolev1.ListJobsRequest, ...grpc.CallOption) (*farandolev1.ListJobsResponse, error) {
		*calls++
		if *calls <= silences {
			return nil, status.Error(codes.DeadlineExceeded, "context deadline exceeded")
		}
		return &farandolev1.ListJobsResponse{}, nil
	}
}

func TestACallThatGetsNoAnswerIsMadeAgainUntilPatienceEnds(t *testing.T) {
	coordinator, err := New(Options{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	ctx, request, calls := context.Background(), &farandolev1.ListJobsRequest{}, 0
	if _, err := call(ctx, coordinator, defaultPatience, listing(1, &calls), request, ""); err != nil || calls != 2 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	calls = 0
	_, err = call(ctx, coordinator, -1, listing(1, &calls), request, "")
	if !errors.Is(err, ErrUnavailable) || calls != 1 || !strings.Contains(err.Error(), "127.0.0.1:1 did not answer within 10s") {
		t.Fatalf("after %d calls: %v", calls, err)
	}
}
