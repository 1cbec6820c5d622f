#ifndef FARANDOLE_SERVER_DIAGNOSIS_DIAGNOSIS_REPORT_H_
#define FARANDOLE_SERVER_DIAGNOSIS_DIAGNOSIS_REPORT_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/monitor.pb.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/measurements.h"
#include "server/diagnosis/roll_up_history.h"

namespace farandole {

// The report for people on a judgement of an epoch, as of `now`. `wall_ahead`: of `now`, as Job::Step has it.
v1::Diagnosis ReportDiagnosis(const Diagnosis& diagnosis, const Measurements& measurements, const EpochFacts& around,
                              absl::Time now, absl::Duration wall_ahead);
// Only its sums since the epoch began.
void ReportTotals(const Measurements& measurements, const EpochFacts& around, absl::Duration wall_ahead,
                  v1::Diagnosis* shown);
// The rank's last half minute; without fields where it was not measured. `least_own_a_step`: of any rank, by the latest
// diagnosis.
v1::Measured ReportRank(const Measurements& measurements, uint32_t rank, absl::Time now, double least_own_a_step);
// Points of a history in columns; steps are those of ten seconds of measuring.
v1::RankHistory ReportHistory(absl::Span<const RollUpHistory::Point> points);
v1::NetworkHistory ReportNetwork(absl::Span<const NetworkHistory::Point> points);
// Adds the sections of a rank that is measured.
void ReportSections(const Measurements& measurements, uint32_t rank, v1::RankHistory* shown);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_DIAGNOSIS_REPORT_H_
