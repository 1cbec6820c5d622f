package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"farandole.dev/go/client/internal/farandolev1"
)

// listing gives a method that ends with this error for so many calls, and then has an answer.
func listing(failures int, failure error, calls *int) method[farandolev1.ListJobsRequest, farandolev1.ListJobsResponse] {
	return func(context.Context, *farandolev1.ListJobsRequest, ...grpc.CallOption) (*farandolev1.ListJobsResponse, error) {
		*calls++
		if *calls <= failures {
			return nil, failure
		}
		return &farandolev1.ListJobsResponse{}, nil
	}
}

var silence = status.Error(codes.DeadlineExceeded, "context deadline exceeded")

// full gives a coordinator's refusal for want of room, with the time after which to retry.
func full(t *testing.T, delay time.Duration) error {
	refusal, err := status.New(codes.ResourceExhausted, "no room").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	if err != nil {
		t.Fatal(err)
	}
	return refusal.Err()
}

func TestACallThatGetsNoAnswerIsMadeAgainUntilPatienceEnds(t *testing.T) {
	coordinator, err := New(Options{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	ctx, request, calls := context.Background(), &farandolev1.ListJobsRequest{}, 0
	if _, err := call(ctx, coordinator, defaultPatience, listing(1, silence, &calls), request, ""); err != nil || calls != 2 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	calls = 0
	_, err = call(ctx, coordinator, -1, listing(1, silence, &calls), request, "")
	if !errors.Is(err, ErrUnavailable) || calls != 1 || !strings.Contains(err.Error(), "127.0.0.1:1 did not answer within 10s") {
		t.Fatalf("after %d calls: %v", calls, err)
	}
}

func TestACallIsMadeAgainWhenTheCoordinatorHasRoom(t *testing.T) {
	coordinator, err := New(Options{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	ctx, request, calls, begun := context.Background(), &farandolev1.ListJobsRequest{}, 0, time.Now()
	delay := 200 * time.Millisecond
	if _, err := call(ctx, coordinator, defaultPatience, listing(2, full(t, delay), &calls), request, ""); err != nil || calls != 3 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	if waited := time.Since(begun); waited < 2*delay {
		t.Fatalf("it was called again after %v, and had said %v", waited, delay)
	}
	for _, refusal := range []error{full(t, time.Hour), status.Error(codes.ResourceExhausted, "no room")} {
		calls = 0
		_, err = call(ctx, coordinator, defaultPatience, listing(1, refusal, &calls), request, "refused to list jobs")
		if calls != 1 || err == nil || !strings.Contains(err.Error(), "refused to list jobs: no room") {
			t.Fatalf("after %d calls: %v", calls, err)
		}
	}
}

func TestACallThatGRPCHasShedIsMadeAgain(t *testing.T) {
	coordinator, err := New(Options{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	ctx, request, calls := context.Background(), &farandolev1.ListJobsRequest{}, 0
	// The words of gRPC in Go, for a stream that was reset with ENHANCE_YOUR_CALM.
	reset := "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM"
	shed := status.Error(codes.ResourceExhausted, reset)
	if _, err := call(ctx, coordinator, defaultPatience, listing(2, shed, &calls), request, ""); err != nil || calls != 3 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	calls = 0
	_, err = call(ctx, coordinator, -1, listing(1, shed, &calls), request, "refused to list jobs")
	if !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "127.0.0.1:1 has no memory for this call now: "+reset) {
		t.Fatal(err)
	}
	marked, err := status.New(codes.ResourceExhausted, "tenant RST_STREAM has 8 tokens, at most 8 may be").
		WithDetails(&errdetails.ErrorInfo{Reason: "BOUND_REACHED", Domain: "farandole.dev"})
	if err != nil {
		t.Fatal(err)
	}
	calls = 0
	_, err = call(ctx, coordinator, defaultPatience, listing(1, marked.Err(), &calls), request, "refused to make a token")
	if calls != 1 || !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "refused to make a token: tenant") {
		t.Fatalf("after %d calls: %v", calls, err)
	}
}
