#ifndef FARANDOLE_DEPLOY_BENCH_REPORT_H_
#define FARANDOLE_DEPLOY_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "deploy/bench/measurement.h"
#include "nlohmann/json.hpp"

namespace farandole::bench {

// Measurements as people and programs read them.

// The columns' names over ReportLine's, each line with '#' before it, as nccl-tests has it.
std::string ReportTitle();
// One line, without its end.
std::string ReportLine(const Measurement& measurement);

// {"op", "dtype", "reduce" (allreduce only), "ranks", "tensors", "bytes" (of one tensor's result), "count", "steps",
// "median_us", "p99_us", "least_us", "algbw_gb_s", "busbw_gb_s", "wrong"}. A GB is 10^9 bytes.
nlohmann::ordered_json ReportJson(const Measurement& measurement);

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_REPORT_H_
