package tests

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// fingerprintOfSums computes the sums of examples/mixed in the order of ranks, first within each host, of equally many.
func fingerprintOfSums(size, hosts int) string {
	found := uint64(0xcbf29ce484222325)
	for i := range 1000 {
		sum := float32(0)
		for host := range hosts {
			ofHost := float32(0)
			for rank := host * size / hosts; rank < (host+1)*size/hosts; rank++ {
				ofHost += float32((37*i+11*rank)%1000) / 7
			}
			sum += ofHost
		}
		for _, octet := range binary.LittleEndian.AppendUint32(nil, math.Float32bits(sum)) {
			found = (found ^ uint64(octet)) * 0x100000001b3
		}
	}
	return fmt.Sprintf("%016x", found)
}

func TestRanksInPythonCppAndGoAgreeToTheBit(t *testing.T) {
	prefix, folder := t.TempDir(), t.TempDir()
	outputOf(t, checkout(t, "."), nil, "tools/install-prefix", prefix)
	cpp, program := filepath.Join(folder, "cpp"), filepath.Join(folder, "go")
	build := `g++ -std=c++17 "$0" $(pkg-config --cflags --libs farandole) -o "$1"`
	packages := []string{"PKG_CONFIG_PATH=" + filepath.Join(prefix, "lib", "pkgconfig")}
	outputOf(t, folder, packages, "sh", "-c", build, checkout(t, "examples/mixed/rank.cc"), cpp)
	outputOf(t, copyExamples(t, prefix), nil, "go", "build", "-o", program, "./mixed")
	// Each setup's ranks by language in turns, so that with 4 of them a second one in Python is on the other host.
	for _, s := range []setup{{3, 1, "auto"}, {3, 1, "tcp"}, {4, 2, "auto"}} {
		t.Run(s.String(), func(t *testing.T) {
			command := jobOf(t, s, t.TempDir(), []string{checkout(t, "examples/mixed/start.sh"), checkout(t, ".venv/bin/python"), cpp, program})
			output, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, output)
			}
			told := fmt.Sprintf("gradient %s, from last %d, rows %d, disagreement: rank 0 has shape [2], rank 1 has shape [3]",
				fingerprintOfSums(s.size, s.hosts), 100+s.size-1, s.size*(s.size+1)/2)
			for i, language := range []string{"Python", "C++", "Go"} {
				wanted := (s.size + 2 - i) / 3
				if found := strings.Count(string(output), language+": "+told); found != wanted {
					t.Errorf("%d ranks in %s, not %d, say %q:\n%s", found, language, wanted, told, output)
				}
			}
		})
	}
}
