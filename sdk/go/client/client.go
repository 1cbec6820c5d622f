// Package client is the control plane for services in Go: it lists, shows and watches jobs, ends them, has workers leave,
// and makes tenants, as the command farandole does. It needs neither a C compiler nor the library.
//
// Every error has one sentence with what, who and both values; errors.Is tells its kind by the Err variables.
package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"farandole.dev/go/client/internal/farandolev1"
	"farandole.dev/go/internal/fault"
)

const maxMessageBytes = 16 << 20

// Error is what a call of this package says: a Code and one Sentence.
type Error = fault.Error

// The kinds of an Error, for errors.Is; the package farandole has the same ones.
var (
	// ErrMismatch: a field of the call is out of bounds.
	ErrMismatch = fault.ErrMismatch
	// ErrNotFound: the tenant has no such job, or the job no such rank or host.
	ErrNotFound = fault.ErrNotFound
	// ErrExists: there is a tenant of this name.
	ErrExists = fault.ErrExists
	// ErrDenied: the token is not known or does not allow it, or TLS does not prove one side to the other.
	ErrDenied = fault.ErrDenied
	// ErrQuota: a quota or another stated maximum is reached.
	ErrQuota = fault.ErrQuota
	// ErrNotRunning: the call is not possible in this state: the job is not elastic, or has ended, or the client is
	// closed.
	ErrNotRunning = fault.ErrNotRunning
	// ErrUnavailable: the coordinator cannot be reached, although the call has tried again as long as Patience says.
	ErrUnavailable = fault.ErrUnavailable
	// ErrUnimplemented: the coordinator is of another version, or another program.
	ErrUnimplemented = fault.ErrUnimplemented
	// ErrCorrupt: a part of a timeline cannot be unpacked.
	ErrCorrupt = fault.ErrCorrupt
	// ErrInternal: a bug in Farandole. Please report it with its sentence.
	ErrInternal = fault.ErrInternal
)

// Client speaks to one coordinator. Any goroutine may call its methods.
type Client struct {
	options    Options
	config     *tls.Config
	connection *link
	monitor    farandolev1.MonitorServiceClient
	admin      farandolev1.AdminServiceClient
	access     farandolev1.AccessServiceClient
}

// New makes a client; nothing is sent before the first call. ErrMismatch: the address or a file cannot be used.
func New(options Options) (*Client, error) {
	if options.Address == "" {
		return nil, mismatch("the coordinator's address is empty; it is HOST:PORT")
	}
	if strings.HasPrefix(options.Address, "unix:") {
		return nil, mismatch("coordinator %s is no HOST:PORT: a coordinator listens on TCP only", options.Address)
	}
	if options.TLS == nil && !isLocal(options.Address) {
		return nil, mismatch("coordinator %s is not on this host, and no TLS was asked for: the token would travel in the clear", options.Address)
	}
	if options.Patience == 0 {
		options.Patience = defaultPatience
	}
	if options.WatchInterval <= 0 {
		options.WatchInterval = defaultInterval
	}
	made := &Client{options: options}
	proof := insecure.NewCredentials()
	if options.TLS != nil {
		config, err := options.TLS.config(options.Address)
		if err != nil {
			return nil, err
		}
		made.config, proof = config, credentials.NewTLS(config)
	}
	dialing := []grpc.DialOption{
		grpc.WithTransportCredentials(proof),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if isLocal(options.Address) {
		dialing = append(dialing, grpc.WithNoProxy())
	}
	if isLocal(options.Address) && options.TLS == nil {
		dialing = append(dialing, grpc.WithContextDialer(dialOwned(options.CoordinatorUsers)))
	}
	dial := func() (*grpc.ClientConn, error) { return grpc.NewClient(options.Address, dialing...) }
	var changed func() bool
	if options.TLS != nil && options.TLS.CertFile != "" {
		changed = options.TLS.watchPair()
	}
	connection, err := newLink(dial, changed)
	if err != nil {
		return nil, mismatch("coordinator %s cannot be an address: %v", options.Address, err)
	}
	made.connection = connection
	made.monitor = farandolev1.NewMonitorServiceClient(connection)
	made.admin = farandolev1.NewAdminServiceClient(connection)
	made.access = farandolev1.NewAccessServiceClient(connection)
	return made, nil
}

// Close closes the connection. Calls under way, and later ones, end with ErrNotRunning.
func (c *Client) Close() error { return c.connection.close() }

// JobID names a job. Tenant "" is the token's own; another tenant's jobs need a token of a role of the
// cluster.
type JobID struct{ Tenant, Name string }

func (id JobID) String() string {
	if id.Tenant == "" {
		return "job " + id.Name
	}
	return "job " + id.Name + " of tenant " + id.Tenant
}

// Jobs gives the jobs that the token may see, the newest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) { return all(c.EachJob(ctx, 0)) }

// EachJob gives the same in pages of pageSize jobs (0 and more than 1,000: 1,000), each of which is asked for when the
// one before it is used up. Jobs that start meanwhile are left out; all that stay are given once. It is an
// iter.Seq2[Job, error]: an error is the last that it gives.
func (c *Client) EachJob(ctx context.Context, pageSize int) func(yield func(Job, error) bool) {
	return pages(func(token string) ([]*farandolev1.JobSummary, string, error) {
		request := &farandolev1.ListJobsRequest{PageSize: sizeOf(pageSize), PageToken: token}
		answer, err := call(ctx, c, c.options.Patience, c.monitor.ListJobs, request, "refused to list its jobs")
		return answer.GetJobs(), answer.GetNextPageToken(), err
	}, jobOf)
}

// Job gives one job with its workers and its history. ErrNotFound: the tenant has no such job.
func (c *Client) Job(ctx context.Context, id JobID) (Details, error) {
	return c.job(ctx, id, c.options.Patience)
}

func (c *Client) job(ctx context.Context, id JobID, patience time.Duration) (Details, error) {
	request := &farandolev1.GetJobRequest{Job: id.Name, Tenant: id.Tenant}
	answer, err := call(ctx, c, patience, c.monitor.GetJob, request, "refused to show "+id.String())
	if err != nil {
		return Details{}, err
	}
	return detailsOf(answer), nil
}

// Checkpoints gives a job's catalogue, the oldest first. ErrNotFound: the tenant has no such job.
func (c *Client) Checkpoints(ctx context.Context, id JobID) ([]Checkpoint, error) {
	return all(c.EachCheckpoint(ctx, id, 0))
}

// EachCheckpoint gives the same as EachJob does it. All that stay are given once, and those that are committed
// meanwhile.
func (c *Client) EachCheckpoint(ctx context.Context, id JobID, pageSize int) func(yield func(Checkpoint, error) bool) {
	return pages(func(token string) ([]*farandolev1.Checkpoint, string, error) {
		request := &farandolev1.ListCheckpointsRequest{
			Job: id.Name, Tenant: id.Tenant, PageSize: sizeOf(pageSize), PageToken: token,
		}
		answer, err := call(ctx, c, c.options.Patience, c.monitor.ListCheckpoints, request, "refused to list the checkpoints of "+id.String())
		return answer.GetCheckpoints(), answer.GetNextPageToken(), err
	}, checkpointOf)
}

// DeleteCheckpoint takes a checkpoint out of a job's catalogue, by its name and step, and gives it as it was there. Its
// file stays, at Path of its host. Needs a token of an operator. ErrNotFound: there is no such job or checkpoint.
func (c *Client) DeleteCheckpoint(ctx context.Context, id JobID, name string, step int64) (Checkpoint, error) {
	request := &farandolev1.DeleteCheckpointRequest{
		Job: id.Name, Tenant: id.Tenant, Name: name, Step: step, IdempotencyKey: newKey(),
	}
	answer, err := call(ctx, c, c.options.Patience, c.admin.DeleteCheckpoint, request, "refused to delete a checkpoint of "+id.String())
	if err != nil {
		return Checkpoint{}, err
	}
	return checkpointOf(answer.Checkpoint), nil
}

// RequestCheckpoint asks a job's program to write a checkpoint soon, where it calls CheckpointRequested. A call joins a
// request that is pending. Details.CheckpointRequest tells what comes of it. Needs a token of an operator, or that of the
// launcher that started it. ErrNotFound: the tenant has no such job. ErrNotRunning: it has ended.
func (c *Client) RequestCheckpoint(ctx context.Context, id JobID) (CheckpointRequest, error) {
	request := &farandolev1.RequestCheckpointRequest{Job: id.Name, Tenant: id.Tenant, IdempotencyKey: newKey()}
	answer, err := call(ctx, c, c.options.Patience, c.admin.RequestCheckpoint, request, "refused to ask "+id.String()+" for a checkpoint")
	if err != nil {
		return CheckpointRequest{}, err
	}
	return requestOf(answer.GetWanted()), nil
}

// Abort ends a job. The reason is one sentence of at most 1,024 bytes; it reaches every worker. Needs a token of
// an operator, or that of the launcher that started it. ErrNotFound: the tenant has no such job.
func (c *Client) Abort(ctx context.Context, id JobID, reason string) error {
	request := &farandolev1.AbortJobRequest{Job: id.Name, Tenant: id.Tenant, Reason: reason, IdempotencyKey: newKey()}
	_, err := call(ctx, c, c.options.Patience, c.admin.AbortJob, request, "refused to end "+id.String())
	return err
}

// Delete deletes a job that has ended, with its history and its catalogue of checkpoints; their files stay. Needs
// a token of an operator. ErrNotFound: the tenant has no such job. ErrNotRunning: it forms or runs.
func (c *Client) Delete(ctx context.Context, id JobID) error {
	request := &farandolev1.DeleteJobRequest{Job: id.Name, Tenant: id.Tenant, IdempotencyKey: newKey()}
	_, err := call(ctx, c, c.options.Patience, c.admin.DeleteJob, request, "refused to delete "+id.String())
	return err
}

// DrainRank has one worker of an elastic job leave at the program's next commit, and gives the ranks that were asked.
// ErrNotFound: the job has no such rank. ErrNotRunning: the job is not elastic, no epoch runs, or too few would remain.
func (c *Client) DrainRank(ctx context.Context, id JobID, rank int, reason string) ([]int, error) {
	if rank < 0 || rank >= 65536 {
		return nil, mismatch("rank %d of %v is not from 0 to 65535", rank, id)
	}
	return c.drain(ctx, id, &farandolev1.DrainWorkersRequest{What: &farandolev1.DrainWorkersRequest_Rank{Rank: uint32(rank)}, Reason: reason})
}

// DrainHost is DrainRank for all workers of a host, by Worker.Hostname.
func (c *Client) DrainHost(ctx context.Context, id JobID, hostname, reason string) ([]int, error) {
	return c.drain(ctx, id, &farandolev1.DrainWorkersRequest{What: &farandolev1.DrainWorkersRequest_Hostname{Hostname: hostname}, Reason: reason})
}

func (c *Client) drain(ctx context.Context, id JobID, request *farandolev1.DrainWorkersRequest) ([]int, error) {
	request.Tenant, request.Job, request.IdempotencyKey = id.Tenant, id.Name, newKey()
	answer, err := call(ctx, c, c.options.Patience, c.admin.DrainWorkers, request, "refused to drain workers of "+id.String())
	if err != nil {
		return nil, err
	}
	return ranksOf(answer.Ranks), nil
}

// Tenant is an owner of jobs.
type Tenant struct {
	// Name is 1 to 64 bytes of [a-z0-9-].
	Name string
	// MaxJobs and MaxWorkers are the most jobs that it may run at a time, and the most workers in them together. 0: the
	// default of 64 and 4,096.
	MaxJobs, MaxWorkers uint32
}

// CreateTenant makes a tenant and gives its first token. The coordinator keeps the token's hash only, so keep the token.
// ErrExists: there is a tenant of this name.
func (c *Client) CreateTenant(ctx context.Context, tenant Tenant) (string, error) {
	request := &farandolev1.CreateTenantRequest{
		Tenant: tenant.Name, MaxJobs: tenant.MaxJobs, MaxWorkers: tenant.MaxWorkers, IdempotencyKey: newKey(),
	}
	answer, err := call(ctx, c, c.options.Patience, c.admin.CreateTenant, request, fmt.Sprintf("refused to make tenant %q", tenant.Name))
	if err != nil {
		return "", err
	}
	return answer.Token, nil
}
