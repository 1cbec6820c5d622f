#ifndef FARANDOLE_SERVER_JOB_DEPARTURES_H_
#define FARANDOLE_SERVER_JOB_DEPARTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/dismissal.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Has members of an elastic job leave, and tells the others when a member is to leave or a worker waits to join. Owned
// by its Job.
class Departures {
 public:
  explicit Departures(JobParts* job) : job_(*job), ledger_(job->ledger), dismissal_(job) {}

  // An operator or the launcher asks for it.
  absl::StatusOr<v1::DrainWorkersResponse> Drain(const DrainRequested& event);
  // Another program will end a member's process.
  void Depart(uint32_t rank, const v1::Departing& departing);
  // Tells the members of the epoch that runs, if that is due.
  void TellWantedChange();

 private:
  absl::StatusOr<std::vector<uint32_t>> RanksToDrain(const DrainRequested& event) const;
  // The incarnations of waiting workers that are to leave.
  std::vector<std::string> WaitingToDrain(const DrainRequested& event) const;
  // Members are to leave, and not to join again; `why` is a sentence's end.
  void DrainRanks(const std::vector<uint32_t>& ranks, const std::string& why);

  JobParts& job_;
  Ledger& ledger_;
  Dismissal dismissal_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_DEPARTURES_H_
