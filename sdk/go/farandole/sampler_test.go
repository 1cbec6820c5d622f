package farandole

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// take gives the samples that all ranks take together.
func take(t *testing.T, count, size, done int, options SamplerOptions) []int {
	t.Helper()
	var all []int
	for rank := range size {
		sampler, err := NewDistributedSampler(count, rank, size, options)
		if err != nil {
			t.Fatal(err)
		}
		sampler.Skip(done)
		if len(sampler.Indices()) != sampler.CountPerRank() {
			t.Fatalf("rank %d takes %v, not %d samples", rank, sampler.Indices(), sampler.CountPerRank())
		}
		all = append(all, sampler.Indices()...)
	}
	slices.Sort(all)
	return all
}

func TestEverySampleIsTakenAndRanksGetEquallyMany(t *testing.T) {
	for size := 1; size <= 8; size++ {
		for count := 0; count <= 20; count++ {
			all := take(t, count, size, 0, SamplerOptions{})
			if len(all) != (count+size-1)/size*size || len(slices.Compact(slices.Clone(all))) != count {
				t.Fatalf("%d ranks take %v of %d samples", size, all, count)
			}
			fewer := take(t, count, size, 0, SamplerOptions{DropLast: true})
			if len(fewer) != count/size*size || len(slices.Compact(slices.Clone(fewer))) != len(fewer) {
				t.Fatalf("without the last ones %d ranks take %v of %d samples", size, fewer, count)
			}
		}
	}
}

func TestTheOrderIsThatOfTheCppSampler(t *testing.T) {
	sampler, err := NewDistributedSampler(10, 0, 1, SamplerOptions{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	sampler.SetPass(2)
	// sdk/cpp/sampler_test.cc holds the same.
	if found, wanted := sampler.Indices(), []int{4, 9, 1, 8, 6, 3, 7, 2, 5, 0}; !slices.Equal(found, wanted) {
		t.Fatalf("the order is %v, not %v", found, wanted)
	}
}

func TestTheRestOfAPassIsSharedAmongOtherRanks(t *testing.T) {
	options := SamplerOptions{Seed: 3}
	all := take(t, 10, 3, 4, options)
	for rank := range 2 {
		sampler, err := NewDistributedSampler(10, rank, 2, options)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sampler.Indices()[:2]...)
	}
	slices.Sort(all)
	if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Fatalf("2 ranks, and 3 after them, took %v", all)
	}
}

func TestAPlaceOutsideTheJobIsRefused(t *testing.T) {
	for _, place := range [][2]int{{2, 2}, {-1, 2}, {0, 0}} {
		if _, err := NewDistributedSampler(10, place[0], place[1], SamplerOptions{}); !errors.Is(err, ErrMismatch) {
			t.Fatalf("rank %d of %d: %v", place[0], place[1], err)
		}
	}
	_, err := NewDistributedSampler(-1, 0, 1, SamplerOptions{})
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "-1") {
		t.Fatalf("the error is %v", err)
	}
}
