#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_CALLS_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_CALLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/flight.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/ledger.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Calls of MonitorService.Diagnose and SurveyCollectives that wait for the answers of workers, and the flight recorders
// that launchers have read of workers that have ended. Calls that ask the same share one question to the workers, and
// its answer for some seconds. When the job stalls, it asks the workers by itself, and keeps their answers; it keeps
// the last survey as well. Owned by its Job, whose parts it borrows.
class EvidenceCalls {
 public:
  explicit EvidenceCalls(JobParts* job)
      : job_(*job),
        stall_charge_(job->options.bytes, ByteKind::kReports),
        survey_charge_(job->options.bytes, ByteKind::kReports) {}

  void On(const EvidenceRequested& event);
  void On(const CollectivesSurveyed& event);
  void On(const FlightReported& event);
  // A member of the running epoch answers; within its bounds.
  void Take(uint32_t rank, const v1::Evidence& evidence);
  // Answers the calls that have all that they wait for, that have waited for long enough, or whose epoch has ended.
  void Settle();
  absl::Time Deadline() const;

 private:
  enum class Purpose { kCall, kStall, kSurvey };
  struct Waiting {
    Purpose purpose = Purpose::kCall;
    // They share the answer; of a stall none.
    std::vector<CallId> calls;
    bool is_over = false;
    bool has_stacks = false;
    uint64_t inquiry = 0;
    uint64_t epoch = 0;
    uint32_t size = 0;
    absl::Time until;
    std::set<uint32_t> unanswered;
    std::map<uint32_t, v1::Evidence> evidence;
    ByteCharge charge = {};
    std::map<uint32_t, std::string> silent;
  };
  // The last answer to calls, for those that come soon after it; of epoch 0: none.
  struct Shared {
    v1::DiagnoseResponse answer;
    absl::Time until;
    ByteCharge charge;
  };
  // The ranks to be asked, as RanksToAsk says, but those that have left.
  std::vector<uint32_t> Chosen() const;
  void Ask(Waiting waiting);
  // The call waits for the answers of the workers, who are asked if they are not being asked for the same already.
  // False: so many calls wait for that.
  bool Join(CallId call, Purpose purpose, bool has_stacks, size_t most);
  void AskIfStalled();
  bool Runs(uint64_t epoch) const;
  // Says what follows from the records of an epoch that has ended, where that has changed.
  void TellOfEndedFlights();
  // A rank that has left after it was asked will not answer.
  void PassOverThoseThatLeft(Waiting* waiting) const;
  // Adds to those that are silent the ranks that have not answered.
  void NameSilent(Waiting* waiting) const;
  v1::DiagnoseResponse Conclude(Waiting* waiting) const;
  void AnswerCalls(const Waiting& waiting, v1::DiagnoseResponse answer);
  void ForgetShared();
  void ConcludeSurvey(Waiting* waiting);
  void KeepStall(v1::DiagnoseResponse answer);
  void AnswerFromLastSurvey(CallId call);
  void AnswerFromRecords(CallId call);
  void AnswerFromStall(CallId call);

  JobParts& job_;
  std::vector<Waiting> waiting_;
  uint64_t last_inquiry_ = 0;
  // The notice that was seen last, when the workers were asked because of one, and in which epoch.
  absl::Time noticed_ = absl::InfinitePast();
  absl::Time asked_at_ = absl::InfinitePast();
  uint64_t asked_in_ = 0;  // epoch
  // By whether it has stacks.
  std::array<Shared, 2> shared_;
  // The answers at the stall; of epoch 0: none.
  v1::DiagnoseResponse stall_;
  ByteCharge stall_charge_;
  // The last one in which some rank has answered, but of an epoch that ends the one that the most ranks have answered;
  // of epoch 0: none. And when ranks have answered last.
  v1::SurveyCollectivesResponse survey_;
  absl::Time surveyed_at_ = absl::InfinitePast();
  ByteCharge survey_charge_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_CALLS_H_
