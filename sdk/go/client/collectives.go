package client

import (
	"context"
	"time"

	"farandole.dev/go/client/internal/farandolev1"
)

// LastArrival is a rank that others have waited for.
type LastArrival struct {
	Rank int
	// Times: so many collectives waited for it last.
	Times uint64
}

// CollectiveCost is the price of one name's collectives since the epoch began, by the clock of each rank for itself: a
// collective waits from a rank's submission until all ranks have submitted it, then its data moves.
type CollectiveCost struct {
	Name string
	// Group is the number of its process set; 0: all ranks.
	Group uint32
	// Operation is "allreduce" and so on.
	Operation string
	// IsOnGPU: only the enqueueing is timed, and no bandwidth is known.
	IsOnGPU bool
	// Count is of the rank that has most.
	Count uint64
	// Bytes of one collective, by the convention of nccl-tests: of an allgather and a gather the whole result, of a scatter
	// the root's input, of others a rank's input.
	Bytes uint64
	// Waited and Moving are of all ranks that have answered, together; so far, where it is not over.
	Waited, Moving time.Duration
	// MeanWait and MeanMoving are of a rank and a collective.
	MeanWait, MeanMoving time.Duration
	// LongestWait is the longest among the latest collectives, of LongestWaitRank.
	LongestWait     time.Duration
	LongestWaitRank int
	// WaitPercent is the part of what the ranks have waited for all names, 0 to 100.
	WaitPercent float64
	// AlgorithmBytesPerSecond and BusBytesPerSecond are 0 if they are not known, as for small ones, whose data travels with
	// the ranks' readiness.
	AlgorithmBytesPerSecond, BusBytesPerSecond float64
	// Compared: of the latest collectives, those whose records of all ranks were compared.
	Compared uint64
	// Last has, of those, the ranks that came last by at least 10 us, the most frequent first, at most 4.
	Last []LastArrival
	// LeastWaitRank has waited least since the epoch began, LeastWait in the mean. It came last, by and large, where that is
	// far below MeanWait.
	LeastWaitRank int
	LeastWait     time.Duration
}

// Collectives are what the tensors of an epoch cost.
type Collectives struct {
	Epoch uint64
	Size  int
	// Asked is when the ranks were asked; the zero time: they were not, and their launchers have read their records when
	// they ended.
	Asked time.Time
	// IsOver: the epoch is.
	IsOver bool
	// Answered: so many ranks have told something; of a large epoch at most 128 are asked.
	Answered int
	// Found counts names, LeftOut those that ranks left out, which have more than 512.
	Found, LeftOut int
	// Waited and Moving are of all ranks and names.
	Waited, Moving time.Duration
	// Costs has those that took the most time first, at most 64.
	Costs []CollectiveCost
	// Silent ranks did not answer, each with why.
	Silent []RankFindings
}

// Collectives asks the workers of a job what its tensors cost since the epoch began, which takes 4 s at most; those who
// ask within 4 s share an answer. Of a job that has ended it gives the last answer.
//
// ErrNotFound: the tenant has no such job, or nothing is known of its tensors. ErrQuota: too many calls wait already.
func (c *Client) Collectives(ctx context.Context, id JobID) (Collectives, error) {
	request := &farandolev1.SurveyCollectivesRequest{Job: id.Name, Tenant: id.Tenant}
	refusal := "refused to ask for the collectives of " + id.String()
	answer, err := call(ctx, c, c.options.Patience, c.monitor.SurveyCollectives, request, refusal)
	if err != nil {
		return Collectives{}, err
	}
	told := Collectives{
		Epoch: answer.GetEpoch(), Size: int(answer.GetSize()), Asked: timeOf(answer.GetAskedUnixMs()), IsOver: answer.GetIsOver(),
		Answered: int(answer.GetAnswered()), Found: int(answer.GetFound()), LeftOut: int(answer.GetLeftOut()),
		Waited: microseconds(answer.GetWaitedUs()), Moving: microseconds(answer.GetMovingUs()),
	}
	for _, cost := range answer.GetCosts() {
		told.Costs = append(told.Costs, costOf(cost))
	}
	for _, rank := range answer.GetSilent() {
		told.Silent = append(told.Silent, RankFindings{int(rank.GetRank()), nil, rank.GetSilence()})
	}
	return told, nil
}

func costOf(from *farandolev1.CollectiveCost) CollectiveCost {
	cost := CollectiveCost{
		Name: from.GetName(), Group: from.GetGroup(), Operation: operationOf(from.GetOp()), IsOnGPU: from.GetIsOnGpu(),
		Count: from.GetCount(), Bytes: from.GetBytes(), Waited: microseconds(from.GetWaitedUs()), Moving: microseconds(from.GetMovingUs()),
		MeanWait: meanOf(from.GetMeanWaitUs()), MeanMoving: meanOf(from.GetMeanMovingUs()),
		LongestWait: microseconds(from.GetLongestWaitUs()), LongestWaitRank: int(from.GetLongestWaitRank()),
		WaitPercent: from.GetWaitPercent(), AlgorithmBytesPerSecond: from.GetAlgorithmBytesPerSecond(),
		BusBytesPerSecond: from.GetBusBytesPerSecond(), Compared: from.GetCompared(),
		LeastWaitRank: int(from.GetLeastWaitRank()), LeastWait: meanOf(from.GetLeastWaitUs()),
	}
	for _, last := range from.GetLast() {
		cost.Last = append(cost.Last, LastArrival{int(last.GetRank()), last.GetTimes()})
	}
	return cost
}

func meanOf(microseconds float64) time.Duration {
	return time.Duration(microseconds * float64(time.Microsecond))
}
