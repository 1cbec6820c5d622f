package farandole

import (
	"fmt"

	"farandole.dev/go/internal/fault"
)

// SamplerOptions say how a DistributedSampler orders and divides the samples. The zero value shuffles with seed 0 and
// repeats samples so that all ranks get equally many.
type SamplerOptions struct {
	// InOrder leaves the samples in their order.
	InOrder bool
	Seed    uint64
	// DropLast leaves out the last samples, if there are not equally many for all ranks, instead of repeating others.
	DropLast bool
}

// DistributedSampler tells which samples of a data set each rank takes in a pass. All ranks shuffle alike, and rank r takes
// every size-th sample from the r-th on. The order depends on seed and pass only. It is the C++ SDK's (SplitMix64, Steele
// et al. 2014, and Fisher and Yates), so ranks in C++ and Go share a data set. It belongs to one goroutine.
type DistributedSampler struct {
	count, rank, size, done int
	pass                    int64
	options                 SamplerOptions
}

// NewDistributedSampler gives the sampler of one rank in a data set of count samples, at pass 0. ErrMismatch: the count is
// negative, or the rank is not one of size.
func NewDistributedSampler(count, rank, size int, options SamplerOptions) (*DistributedSampler, error) {
	if count < 0 {
		return nil, fault.New(fault.InvalidArgument, fmt.Sprintf("a data set has at least 0 samples, not %d", count))
	}
	sampler := &DistributedSampler{count: count, options: options}
	return sampler, sampler.SetPlace(rank, size)
}

// SetPlace is for another epoch of an elastic job. ErrMismatch: the rank is not one of size; the place stays as it was.
func (s *DistributedSampler) SetPlace(rank, size int) error {
	if rank < 0 || rank >= size {
		return fault.New(fault.InvalidArgument, fmt.Sprintf("rank %d cannot sample in a job of size %d", rank, size))
	}
	s.rank, s.size = rank, size
	return nil
}

// SetPass begins a pass, of which nothing is done. Each pass has another order.
func (s *DistributedSampler) SetPass(pass int64) { s.pass, s.done = pass, 0 }

// Skip tells how many samples of the pass all ranks together are done with; the ranks share the rest.
func (s *DistributedSampler) Skip(count int) { s.done = min(max(count, 0), s.count) }

// CountPerRank gives how many samples each rank gets.
func (s *DistributedSampler) CountPerRank() int {
	left := s.count - s.done
	if s.options.DropLast {
		return left / s.size
	}
	return (left + s.size - 1) / s.size
}

// Indices gives this rank's samples, in their order.
func (s *DistributedSampler) Indices() []int {
	rest := s.order()[s.done:]
	own := make([]int, s.CountPerRank())
	for i := range own {
		own[i] = rest[(i*s.size+s.rank)%len(rest)]
	}
	return own
}

// order gives all samples in the order of the pass.
func (s *DistributedSampler) order() []int {
	order := make([]int, s.count)
	for i := range order {
		order[i] = i
	}
	if s.options.InOrder {
		return order
	}
	state := s.options.Seed*0x9e3779b97f4a7c15 + uint64(s.pass) + 1
	for left := len(order); left > 1; left-- {
		other := splitMix(&state) % uint64(left)
		order[left-1], order[other] = order[other], order[left-1]
	}
	return order
}

func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	mixed := *state
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb
	return mixed ^ (mixed >> 31)
}
