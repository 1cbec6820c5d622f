package client

import (
	"context"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
)

// Quota is the most that a tenant may have at a time.
type Quota struct {
	// MaxJobs and MaxWorkers bound the jobs that run, and the workers in them together.
	MaxJobs, MaxWorkers uint32
	// Cohort: its tenants lend each other the workers that they do not use; "": none.
	Cohort string
	// Weight says how much of the cohort's is the tenant's fair part, beside the others'. Borrow is the most workers beyond
	// its own that it may have from its cohort.
	Weight, Borrow uint32
	// MaxStoreBytes bounds its rows in the coordinator's store.
	MaxStoreBytes uint64
}

// TenantRecord is a tenant, its quota, and what it uses of that.
type TenantRecord struct {
	Name  string
	Quota Quota
	// Created and Tokens, those that are good, are not told by SetQuota.
	Created time.Time
	Tokens  int
	// Jobs form or run, and want so many Workers; QueuedJobs wait, and want so many QueuedWorkers.
	Jobs, QueuedJobs       int
	Workers, QueuedWorkers uint64
	// StoreBytes is as it was measured last.
	StoreBytes uint64
}

// QuotaChange says what SetQuota changes: nil leaves a part as it is; 0 is its default, and the cohort "" is none.
type QuotaChange struct {
	MaxJobs, MaxWorkers *uint32
	Cohort              *string
	Weight, Borrow      *uint32
	MaxStoreBytes       *uint64
}

// Set gives a value for a QuotaChange: QuotaChange{MaxJobs: Set[uint32](8)}.
func Set[Value any](value Value) *Value { return &value }

// Tenants gives the tenants that the token may see, by name, with their quotas and what they use of them.
func (c *Client) Tenants(ctx context.Context) ([]TenantRecord, error) {
	return all(c.EachTenant(ctx, 0))
}

// EachTenant gives the same as EachJob does it.
func (c *Client) EachTenant(ctx context.Context, pageSize int) func(yield func(TenantRecord, error) bool) {
	return pages(func(token string) ([]*farandolev1.TenantSummary, string, error) {
		request := &farandolev1.ListTenantsRequest{PageSize: sizeOf(pageSize), PageToken: token}
		answer, err := call(ctx, c, c.options.Patience, c.access.ListTenants, request, "refused to list its tenants")
		return answer.GetTenants(), answer.GetNextPageToken(), err
	}, tenantOf)
}

// SetQuota changes a tenant's quota, and gives the tenant as it is then. Jobs that run go on in any case. Needs a token of
// root. ErrNotFound: there is no such tenant. ErrMismatch: a part is out of bounds.
func (c *Client) SetQuota(ctx context.Context, tenant string, change QuotaChange) (TenantRecord, error) {
	request := &farandolev1.SetQuotaRequest{
		Tenant: tenant, MaxJobs: change.MaxJobs, MaxWorkers: change.MaxWorkers, Cohort: change.Cohort, Weight: change.Weight,
		Borrow: change.Borrow, MaxStoreBytes: change.MaxStoreBytes, IdempotencyKey: newKey(),
	}
	answer, err := call(ctx, c, c.options.Patience, c.admin.SetQuota, request, "refused to set the quota of tenant "+tenant)
	if err != nil {
		return TenantRecord{}, err
	}
	return tenantOf(answer.GetTenant()), nil
}

func tenantOf(from *farandolev1.TenantSummary) TenantRecord {
	return TenantRecord{
		Name: from.GetTenant(),
		Quota: Quota{
			MaxJobs: from.GetMaxJobs(), MaxWorkers: from.GetMaxWorkers(), Cohort: from.GetCohort(), Weight: from.GetWeight(),
			Borrow: from.GetBorrow(), MaxStoreBytes: from.GetMaxStoreBytes(),
		},
		Created: timeOf(from.GetCreatedUnixMs()), Tokens: int(from.GetTokens()),
		Jobs: int(from.GetJobs()), Workers: from.GetWorkers(), QueuedJobs: int(from.GetQueuedJobs()),
		QueuedWorkers: from.GetQueuedWorkers(), StoreBytes: from.GetStoreBytes(),
	}
}
