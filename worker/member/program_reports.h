#ifndef FARANDOLE_WORKER_MEMBER_PROGRAM_REPORTS_H_
#define FARANDOLE_WORKER_MEMBER_PROGRAM_REPORTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farandole/v1/flight.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/conversation.h"
#include "worker/member/lasting_parts.h"
#include "worker/member/timeline_relay.h"
#include "worker/member/witness.h"

namespace farandole {

// Sends in one epoch what the process reports of its program: the numbers that it logs, evidence where the
// coordinator asks for it, and its part of the job's timeline. Owned by its CoordinatorLink, whose conversation it
// borrows.
class ProgramReports {
 public:
  // `read_flight` reads the flight recorder.
  ProgramReports(Conversation* conversation, const LastingParts& parts, const v1::Epoch& epoch, int rank,
                 const std::string& who, WitnessSources sources, ReadFlightRecords read_flight);

  // A question for evidence, or an order about the timeline.
  void Take(const v1::CoordinatorMessage& message);
  // At each of the worker's ticks, by its number.
  void OnTick(uint64_t beat);
  // The stream is a new one.
  void OnAttached();
  // Before the worker leaves: sends what there is. Any thread. Afterwards nothing uses the conversation by itself.
  void Finish();

 private:
  void SendLogged();
  void SendEvidence();

  Conversation* const conversation_;
  const LastingParts parts_;
  const uint64_t epoch_;
  const int rank_;
  const int size_;
  Witness witness_;
  const ReadFlightRecords read_flight_;
  // Null: this process has no timeline.
  std::unique_ptr<TimelineRelay> timeline_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_PROGRAM_REPORTS_H_
