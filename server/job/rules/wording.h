#ifndef FARANDOLE_SERVER_JOB_RULES_WORDING_H_
#define FARANDOLE_SERVER_JOB_RULES_WORDING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/text/plain_text.h"
#include "base/text/rank_text.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// How a job's sentences name things. All functions are pure and bounded: for any input of a worker, the text stays
// short, is valid UTF-8 and stays on one line. Plain and ShowRanks, which they use too, are those of base/text.

// "worker 4711 on host a"; the host's name, or its identity where it has none.
std::string DescribeWorker(const v1::Member& member);
// "rank 1 (worker 4711 on host a)".
std::string DescribeRank(uint32_t rank, const v1::Member& member);

// "timed out (seen by rank 1)".
std::string SeenBy(absl::string_view evidence, uint32_t rank);

// "[0,1,2]", at most 64 numbers, then "...".
std::string ShowList(absl::Span<const uint32_t> numbers);
// "[4,8]", at most 32 numbers, then "...".
std::string ShowShape(absl::Span<const int64_t> dims);
// "250 ms", "3 s", "61.5 s".
std::string ShowDuration(absl::Duration duration);
// "1 worker", "2 workers".
std::string Count(uint64_t number, absl::string_view noun);
// "the one worker", "all 2 workers".
std::string All(uint64_t number, absl::string_view noun);

// "float32"; "dtype 17" for a number that has no name. The same for the others ("sum", "cuda"). For ops:
// base/op_text.h.
std::string ShowDType(v1::DType dtype);
std::string ShowReduceOp(v1::ReduceOp op);
std::string ShowDevice(v1::DeviceKind device);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_WORDING_H_
