#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_ENDED_FLIGHTS_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_ENDED_FLIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "farandole/v1/flight.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/evidence/flight_judge.h"

namespace farandole {

// The flight recorders that launchers have read of the ranks of an epoch that has ended, and what follows from them.
// Records of thousands of ranks take some 35 ms to judge, and launchers may send them rank by rank. So each answer is
// kept and given to all who ask. It is made anew at once where there are records of more ranks, of kFew or less; where
// there are those of half as many more; and where there are those of all. For other changes it is made once in
// kDistance. Owned by its job's parts.
class EndedFlights {
 public:
  static constexpr absl::Duration kDistance = absl::Seconds(1);
  static constexpr size_t kFew = 256;

  // Takes the place of what was known of the rank. Without room in the account (null: there always is) nothing changes.
  void Keep(uint32_t rank, v1::FlightRecords flight, const std::shared_ptr<ByteAccount>& account);
  // Forgets all, for the next epoch.
  void Clear();

  bool empty() const { return flights_.empty(); }
  const std::map<uint32_t, v1::FlightRecords>& by_rank() const { return flights_; }

  // JudgeFlights and SurveyCollectives of all records; `size`: of their epoch. Good until the next call.
  const FlightFinding& Judge(uint32_t size, absl::Time now);
  const v1::SurveyCollectivesResponse& Survey(uint32_t size, absl::Time now);
  // When Judge may have something new to say; InfiniteFuture: it has said all.
  absl::Time JudgesAt() const;
  // How often an answer was made.
  uint64_t made() const { return made_; }

 private:
  // Which records an answer is of.
  struct Made {
    uint64_t version = 0;
    size_t ranks = 0;
    absl::Time at = absl::InfinitePast();
  };
  // Whether the answer is to be made now; then `made` says so.
  bool IsDue(uint32_t size, absl::Time now, Made* made);

  std::map<uint32_t, v1::FlightRecords> flights_;
  ByteCharge charge_;
  // Changes of `flights_`.
  uint64_t version_ = 0;
  FlightFinding finding_;
  Made found_;
  v1::SurveyCollectivesResponse survey_;
  Made surveyed_;
  ByteCharge survey_charge_;
  uint64_t made_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_ENDED_FLIGHTS_H_
