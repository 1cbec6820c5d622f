package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"farandole.dev/go/internal/fault"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// For a handshake that tells why gRPC's failed.
	probeLimit = 3 * time.Second
	// One attempt waits so long for its answer, as the commands do.
	attemptLimit = 10 * time.Second
)

// method is a call of a generated stub.
type method[Request, Response any] func(ctx context.Context, request *Request, options ...grpc.CallOption) (*Response, error)

// call calls until the coordinator answers, patience is over or the context ends. A coordinator that has no room says when
// to retry, and is called then; where its gRPC has shed the call, it is called again, too. Every call of the services may be repeated: reads change nothing, and changes carry an
// idempotency key. refusal says what a coordinator did that answered with an error: "refused to show job mnist".
func call[Request, Response any](ctx context.Context, c *Client, patience time.Duration, do method[Request, Response], request *Request, refusal string) (*Response, error) {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		response, err := attempt(ctx, c, do, request)
		if err == nil {
			return response, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("coordinator %s was given up before it answered: %w", c.options.Address, cause)
		}
		told, isStatus := status.FromError(err)
		if !isStatus {
			return nil, err
		}
		if told.Code() == codes.Unavailable {
			if fault := c.tlsFault(ctx, told); fault != nil {
				return nil, fault
			}
		}
		delay := retryDelay(told)
		mayRetry := delay > 0 || isShed(told) || told.Code() == codes.Unavailable || told.Code() == codes.DeadlineExceeded
		wait := max(pause, delay)
		if !mayRetry || time.Now().Add(wait).After(deadline) {
			return nil, c.explain(told, refusal)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// retryDelay gives after what time the refusal says that the same call may succeed; 0: it does not say that.
func retryDelay(told *status.Status) time.Duration {
	for _, detail := range told.Details() {
		if info, isRetry := detail.(*errdetails.RetryInfo); isRetry {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// isShed reports whether gRPC itself ended the call, since memory had run out at the coordinator: the code is that of a
// refusal, but the coordinator marks its own in the details. Older coordinators do not, and neither does gRPC where a
// message is larger than the maximum; so its words decide besides.
func isShed(told *status.Status) bool {
	if told.Code() != codes.ResourceExhausted || len(told.Proto().GetDetails()) > 0 {
		return false
	}
	text := told.Message()
	return text == "" || strings.Contains(text, "RST_STREAM") || strings.Contains(text, "GOAWAY")
}

func attempt[Request, Response any](ctx context.Context, c *Client, do method[Request, Response], request *Request) (*Response, error) {
	token, err := c.options.Token.token(ctx, c.options.Address)
	if err != nil {
		return nil, err
	}
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	limited, stop := context.WithTimeout(ctx, attemptLimit)
	defer stop()
	return do(limited, request)
}

// explain gives the call's outcome in a sentence that names the coordinator.
func (c *Client) explain(told *status.Status, refusal string) error {
	coordinator, source := "coordinator "+c.options.Address, c.options.Token
	text, code := told.Message(), fault.Code(told.Code())
	switch told.Code() {
	case codes.Unauthenticated:
		what := " refused the token" + source.origin
		if source.read == nil {
			what = " wants a token, and none was given"
			if c.options.TLS != nil && c.options.TLS.CertFile != "" {
				what = " refused the certificate in " + c.options.TLS.CertFile
			}
		}
		return fault.New(code, coordinator+what+": "+text)
	case codes.Unimplemented:
		return fault.New(code, fmt.Sprintf("%s does not speak this Farandole's protocol (%s): it is another version, or another program", coordinator, text))
	case codes.DeadlineExceeded:
		return fault.New(fault.Unavailable, fmt.Sprintf("%s did not answer within %v", coordinator, attemptLimit))
	case codes.Canceled:
		return fault.New(fault.FailedPrecondition, fmt.Sprintf("the client of %s was closed before it answered", coordinator))
	case codes.ResourceExhausted:
		if isShed(told) {
			return fault.New(code, coordinator+" has no memory for this call now: "+text)
		}
	case codes.Unavailable:
		return fault.New(code, coordinator+" is unreachable: "+plainCause(text))
	}
	return fault.New(code, coordinator+" "+refusal+": "+text)
}

// plainCause gives the cause in gRPC's text about a connection that failed, without the library's wrapping.
func plainCause(text string) string {
	for _, mark := range []string{"Error while dialing: ", "desc = "} {
		if at := strings.LastIndex(text, mark); at >= 0 {
			text = text[at+len(mark):]
		}
	}
	return strings.Trim(text, `"`)
}

// tlsFault tells, by a handshake of its own, why the two sides did not understand each other; nil: not because of TLS.
func (c *Client) tlsFault(ctx context.Context, told *status.Status) error {
	address := c.options.Address
	said := told.Message()
	if strings.Contains(said, "connection refused") || strings.Contains(said, ownerSetting) {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, probeLimit)
	defer stop()
	plain := c.config == nil
	config := c.config
	if plain {
		// The certificate does not matter, for nothing is sent: the question is whether the peer speaks TLS.
		config = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer raw.Close()
	if limit, has := ctx.Deadline(); has {
		_ = raw.SetDeadline(limit)
	}
	peer := tls.Client(raw, config)
	err = peer.HandshakeContext(ctx)
	if plain {
		if err == nil {
			return fault.New(fault.Unauthenticated, fmt.Sprintf("coordinator %s speaks TLS, and no CA file was given", address))
		}
		return nil
	}
	if err == nil {
		// A peer that requires a certificate says so after the handshake; any other one sends its settings.
		_, err = peer.Read(make([]byte, 1))
	}
	return c.options.TLS.explain(address, err)
}

func newKey() string {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		panic(errors.New("farandole: the system gives no random bytes: " + err.Error()))
	}
	return hex.EncodeToString(bytes)
}
