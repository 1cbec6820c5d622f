package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// link is a client's connection. It is replaced when the files of the client's certificate have been: gRPC reads them for
// a new connection only, and a coordinator answers calls on the old one no more when that certificate has ended.
type link struct {
	dial func() (*grpc.ClientConn, error)
	// changed tells whether the files hold another certificate than at its last call, which can be used; nil: there are
	// none.
	changed func() bool

	mutex   sync.Mutex
	current *grpc.ClientConn
	// Those that calls may still use, with what closes them.
	old map[*grpc.ClientConn]*time.Timer
	// The client is closed.
	closed bool
}

func newLink(dial func() (*grpc.ClientConn, error), changed func() bool) (*link, error) {
	first, err := dial()
	if err != nil {
		return nil, err
	}
	return &link{dial: dial, changed: changed, current: first, old: make(map[*grpc.ClientConn]*time.Timer)}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (l *link) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	return l.connection().Invoke(ctx, method, request, response, options...)
}

// NewStream implements grpc.ClientConnInterface.
func (l *link) NewStream(ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return l.connection().NewStream(ctx, description, method, options...)
}

func (l *link) connection() *grpc.ClientConn {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed || l.changed == nil || !l.changed() {
		return l.current
	}
	next, err := l.dial()
	if err != nil {
		return l.current
	}
	last := l.current
	l.current = next
	// No call takes longer than an attempt.
	l.old[last] = time.AfterFunc(attemptLimit, func() { l.forget(last) })
	return next
}

func (l *link) forget(connection *grpc.ClientConn) {
	l.mutex.Lock()
	delete(l.old, connection)
	l.mutex.Unlock()
	_ = connection.Close()
}

func (l *link) close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	for connection, timer := range l.old {
		timer.Stop()
		_ = connection.Close()
	}
	clear(l.old)
	return l.current.Close()
}
