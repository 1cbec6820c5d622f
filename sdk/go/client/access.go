package client

import (
	"context"
	"strings"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
)

// Role is what a token may do; docs/security.md has the table. Each of a tenant's may do what the ones before it may.
type Role string

// The roles. Auditor, ClusterOperator and Root are of the cluster: they mean all tenants.
const (
	Viewer          Role = "viewer"
	Launcher        Role = "launcher"
	Operator        Role = "operator"
	Admin           Role = "admin"
	Auditor         Role = "auditor"
	ClusterOperator Role = "cluster-operator"
	Root            Role = "root"
)

func roleOf(role farandolev1.Role) Role {
	return Role(strings.ReplaceAll(strings.ToLower(role.String()), "_", "-"))
}

func (r Role) number() farandolev1.Role {
	return farandolev1.Role(farandolev1.Role_value[strings.ReplaceAll(strings.ToUpper(string(r)), "-", "_")])
}

// TokenRecord is what the coordinator keeps of a token; its text is none of that.
type TokenRecord struct {
	// ID names the token, and is no secret.
	ID, Tenant string
	Role       Role
	Label      string
	Created    time.Time
	// Expires is the zero time for a token that does not expire. LastUsed is known to about a minute; zero: never.
	Expires, LastUsed time.Time
	// MadeWith is the ID of the token with which it was made.
	MadeWith string
	// Ended says why it is not good any more; "": it is.
	Ended string
}

// NewToken asks for a token.
type NewToken struct {
	// Tenant "" is the own one.
	Tenant string
	Role   Role
	// Label is a line for people.
	Label string
	// Lifetime is at most 90 days; 0: 30 days.
	Lifetime time.Duration
}

func tokenOf(row *farandolev1.Token) TokenRecord {
	return TokenRecord{
		ID: row.GetId(), Tenant: row.GetTenant(), Role: roleOf(row.GetRole()), Label: row.GetLabel(),
		Created: timeOf(row.GetCreatedUnixMs()), Expires: timeOf(row.GetExpiresUnixMs()),
		LastUsed: timeOf(row.GetLastUsedUnixMs()), MadeWith: row.GetMadeWith(), Ended: row.GetEnded(),
	}
}

// Tokens gives a tenant's tokens, by time; "": those of all tenants that the token may see. Needs the role Admin, as the
// other calls about tokens do.
func (c *Client) Tokens(ctx context.Context, tenant string) ([]TokenRecord, error) {
	return all(c.EachToken(ctx, tenant, 0))
}

// EachToken gives the same as EachJob does it.
func (c *Client) EachToken(ctx context.Context, tenant string, pageSize int) func(yield func(TokenRecord, error) bool) {
	return pages(func(token string) ([]*farandolev1.Token, string, error) {
		request := &farandolev1.ListTokensRequest{Tenant: tenant, PageSize: sizeOf(pageSize), PageToken: token}
		answer, err := call(ctx, c, c.options.Patience, c.access.ListTokens, request, "refused to list its tokens")
		return answer.GetTokens(), answer.GetNextPageToken(), err
	}, tokenOf)
}

// CreateToken makes a token and gives its text, which is not shown again. ErrDenied: the role is above the own one.
// ErrNotFound: there is no such tenant. ErrQuota: the tenant has too many tokens.
func (c *Client) CreateToken(ctx context.Context, wanted NewToken) (string, TokenRecord, error) {
	request := &farandolev1.CreateTokenRequest{
		Tenant: wanted.Tenant, Role: wanted.Role.number(), Label: wanted.Label,
		LifetimeSeconds: uint64(max(wanted.Lifetime, 0).Seconds()), IdempotencyKey: newKey(),
	}
	answer, err := call(ctx, c, c.options.Patience, c.access.CreateToken, request, "refused to make a token")
	if err != nil {
		return "", TokenRecord{}, err
	}
	return answer.Token, tokenOf(answer.About), nil
}

// RotateToken gives a token a new text, and lets the old one be good for the overlap, at most 7 days. Runs that were
// launched with it go on. ErrNotFound: there is no such token. ErrNotRunning: it was revoked.
func (c *Client) RotateToken(ctx context.Context, id string, overlap time.Duration) (string, error) {
	request := &farandolev1.RotateTokenRequest{
		Id: id, OverlapSeconds: uint64(max(overlap, 0).Seconds()), IdempotencyKey: newKey(),
	}
	answer, err := call(ctx, c, c.options.Patience, c.access.RotateToken, request, "refused to rotate token "+id)
	if err != nil {
		return "", err
	}
	return answer.Token, nil
}

// RevokeToken ends a token, and within a second its streams and the runs that were launched with it; andMadeWithIt: also
// the tokens that were made or rotated with it, and with those. It gives how many tokens have ended. ErrNotFound: there is
// no such token.
func (c *Client) RevokeToken(ctx context.Context, id string, andMadeWithIt bool) (int, error) {
	request := &farandolev1.RevokeTokenRequest{Id: id, AndMadeWithIt: andMadeWithIt, IdempotencyKey: newKey()}
	answer, err := call(ctx, c, c.options.Patience, c.access.RevokeToken, request, "refused to revoke token "+id)
	if err != nil {
		return 0, err
	}
	return int(answer.Ended), nil
}
