#ifndef FARANDOLE_WORKER_MEMBER_WITNESS_H_
#define FARANDOLE_WORKER_MEMBER_WITNESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "farandole/v1/flight.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/launch/options.h"
#include "worker/stacks/native_source.h"
#include "worker/stacks/stack_source.h"

namespace farandole {

// "NAME=value" of the settings that matter to what a job does, and versions; no secrets, and no paths.
std::vector<std::string> DescribeSettings(const WorkerOptions& options);

// Reads the flight recorder; `with_times`: and how each name has fared.
using ReadFlightRecords = std::function<v1::FlightRecords(bool with_times)>;
// The sources of a Witness, by the worker's options.
struct WitnessSources {
  explicit WitnessSources(const WorkerOptions& options);

  // By the program that belongs to this library, unless the options turn it off.
  NativeSource native;
  std::vector<std::string> settings;
};

// Answers the coordinator's questions for evidence: the flight recorder, stacks, threads and settings.
// The stacks of a language are read as its SDK has registered it: with the interpreter's lock, and without it where
// that is not to be had within a second. Those of compiled code are read beside them. One thread.
class Witness {
 public:
  // `stacks` outlives it; null: there are none.
  Witness(StackSource* stacks, WitnessSources sources);

  void Ask(const v1::EvidenceWanted& wanted, int64_t now_ns);
  // The answers that are complete now; to be asked for after a question, and every half second. `read_flight` reads the
  // flight recorder.
  std::vector<v1::WorkerMessage> Take(int64_t now_ns, const ReadFlightRecords& read_flight);

 private:
  struct Question {
    v1::EvidenceWanted wanted;
    int64_t asked_ns;
  };
  // False: it is not there yet.
  bool AddStacks(int64_t waited_ns, v1::Evidence* evidence);
  void AddThreads(const std::string& text, v1::Evidence* evidence);

  StackSource* const stacks_;
  WitnessSources sources_;
  std::vector<Question> questions_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_WITNESS_H_
