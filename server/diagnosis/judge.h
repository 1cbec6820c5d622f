#ifndef FARANDOLE_SERVER_DIAGNOSIS_JUDGE_H_
#define FARANDOLE_SERVER_DIAGNOSIS_JUDGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/diagnosis/excuse.h"
#include "server/diagnosis/measurements.h"
#include "server/diagnosis/section_medians.h"

namespace farandole {

// Why a job is slower than it could be.
enum class Cause {
  // A rank computes for longer than the others, in each step.
  kSlowCompute,
  // A rank comes late, and does not compute meanwhile, or not in each step: input, garbage collection, validation, a
  // process that stands still.
  kLate,
  // A rank waits in another collective than the others.
  kSkipped,
  // Collectives take long, as a host's connections, or all, carry no more.
  kSlowNetwork,
  // All ranks together have become slower.
  kWholeJob,
};

// "slow compute", "late", "skipped", "slow network", "whole job".
const char* CauseName(Cause cause);

struct Blocker {
  Cause cause = Cause::kLate;
  Excuse excuse = Excuse::kNone;
  // The rank or the host that is to blame; where neither is set, all are.
  std::optional<uint32_t> rank;
  std::optional<uint32_t> host;
  // The price: seconds a minute that each other rank loses, and percent of the job's time.
  double lost_seconds_a_minute = 0;
  double percent = 0;
  // Its own time, over the median of the others'; 0: not known.
  double own_ratio = 0;
  // In how many of how many steps it was the last.
  uint64_t last_steps = 0;
  uint64_t steps = 0;
  // Since when.
  absl::Time since;
  std::string sentence;
  // The section of its program in which most of its excess lies; "": none is known.
  std::string section;
};

// How the measured ranks spend their time, on average.
struct Shares {
  double seconds = 0;
  uint64_t steps = 0;
  // Parts of the time, 0 to 1: the program's own, waiting for other ranks, and waiting while a collective ran.
  double own = 0;
  double waited = 0;
  double transfer = 0;

  // S of StragglerAnalysis (https://arxiv.org/abs/2505.05713): the time, over what it would be if all ranks had their
  // mean of own time, so that none waited for another.
  double Slowdown() const { return waited < 1 ? 1 / (1 - waited) : 0; }
};

struct Diagnosis {
  Shares shares;
  // The least own time in a step of any rank, in seconds; 0: not known.
  double least_own_a_step = 0;
  // The dearest first; at most kMostBlockers.
  std::vector<Blocker> blockers;
};

// Facts that are not measured.
struct EpochFacts {
  // By rank: it takes part still; how busy its GPU is, 0 to 1.
  std::function<bool(uint32_t rank)> is_present;
  std::function<std::optional<double>(uint32_t rank)> gpu_busy;
  // "rank 37 (node-5)", "host node-5", "'grad/3'".
  std::function<std::string(uint32_t rank)> name_rank;
  std::function<std::string(uint32_t host)> name_host;
  std::function<std::string(uint32_t slot)> name_slot;
};

// Says what slows a job down, from its measurements up to `now`. Pure; docs/diagnosis.md has the rules in words.
// Without rings (see Measurements) there is no blocker.
class Judge {
 public:
  static constexpr size_t kMostBlockers = 5;
  // Ranks that are looked at closely. Some of them may be explained by a host.
  static constexpr size_t kMostSuspects = 64;
  // Less of a job's time is not worth a sentence.
  static constexpr double kLeastShare = 0.05;
  // Greyhound keeps changes of at least 10 %.
  static constexpr double kLeastRise = 0.1;
  // Most of what is looked at: 30 s.
  static constexpr int64_t kWindow = 60;

  Judge(const Measurements& measurements, const EpochFacts& around) : measured_(measurements), around_(around) {}

  Diagnosis Decide(absl::Time now);
  // Since the epoch began.
  Shares Totals() const;
  // Since the epoch began: the rank that has waited least for the others, if they have waited for at least 5 % of the
  // time more than it has.
  std::optional<Blocker> WorstOfAll() const;

 private:
  struct Row {
    uint32_t rank;
    RankSpan span;
    // Shares of the time.
    double own = 0;
    double waited = 0;
    double transfer = 0;
    // By how much less it waits for others than the median of the others.
    double gap = 0;
  };
  // A host to or from which data goes more slowly than between the others.
  struct SlowHost {
    uint32_t host = 0;
    bool sends = false;
    bool receives = false;
    // Bytes a second while data is under way: of its quickest connection, and the median of the others.
    double rate = 0;
    double others = 0;
    // How much of the time data is under way, and would not be if it were as quick as the others.
    double busy = 0;
    double excess = 0;
  };
  // A rank that the others wait for.
  struct Suspect {
    const Row* row = nullptr;
    double median = 0;
    double percent = 0;
    // In its pauses, as Spread has it.
    double paused_busy = 0;
    bool is_steady = false;
  };
  // How a rank's gap is spread over the buckets of the window.
  struct Spread {
    int buckets = 0;
    // The mean over its standard error.
    double certainty = 0;
    // A pause is a time in which the others wait, and the rank neither waits nor finishes a step. `longest_pause`: the
    // longest one. `paused_share`: the part of the others' waits that falls into pauses. `paused_busy`: how busy the
    // rank's CPU was in them.
    double longest_pause = 0;
    double paused_share = 0;
    double paused_busy = 0;
  };

  void ReadWindow(absl::Time now);
  void ReadMeans();
  Shares SharesOf() const;
  bool JudgeStandstill(Diagnosis* diagnosis) const;
  void BlameAbsent(const std::vector<uint32_t>& absent, Diagnosis* diagnosis) const;
  void BlameSkipped(Diagnosis* diagnosis) const;
  void JudgeRanks(Diagnosis* diagnosis) const;
  // `median`: of the others' own time. nullopt: the rank is not slow, or its time says not enough.
  std::optional<Suspect> SuspectOf(const Row& row, double median) const;
  Blocker BlockerOf(const Suspect& suspect, const SectionMedians& sections) const;
  void JudgeNetwork(Diagnosis* diagnosis) const;
  std::vector<HostLinks::Link> BulkLinks() const;
  static double RateBeside(const std::vector<HostLinks::Link>& links, uint32_t host, bool sends);
  std::optional<SlowHost> FindSlowHost(const std::vector<HostLinks::Link>& links) const;
  void BlameHost(const SlowHost& slow, double share, Blocker* blocker) const;
  void BlameNetwork(double share, Blocker* blocker) const;
  // How much of the time even the rank waits that waits least: for data, or for word that it is the others' turn.
  double LeastInCalls() const;
  double BestTransferAStep() const;
  // A host's slow network is why its ranks come late; they are no blockers of their own unless they cost more.
  void DropExplained(Diagnosis* diagnosis) const;
  void JudgeWhole(Diagnosis* diagnosis) const;
  Spread SpreadOf(uint32_t rank) const;
  double GapIn(uint32_t rank, int64_t bucket) const;
  // A change of a rank's gap, or of another loss.
  struct Onset {
    absl::Time at;
    bool is_oldest = false;  // it was great in all buckets that are known
  };
  // When the share of the time that is lost, by bucket, has changed most clearly from small to great; where it never
  // was small, the oldest bucket in which the rank is known.
  Onset OnsetOf(uint32_t rank, absl::FunctionRef<double(int64_t bucket)> loss_in) const;
  // When the rank's gap began. If it was great all the last minute, the history says when, if it knows more.
  absl::Time OnsetOfGap(uint32_t rank) const;
  std::optional<absl::Time> OnsetInHistory(uint32_t rank) const;
  // How much of its own time its GPU, or else its CPU, was busy; and the same in the last seconds.
  double Busy(const Row& row) const;
  double BusySince(const Row& row, double seconds) const;
  std::string Activity(const Row& row, double busy) const;
  // Gives a late rank's blocker its excuse, and ends its sentence with it.
  void AddExcuse(const Row& row, double busy, bool is_steady, Blocker* blocker) const;

  const Measurements& measured_;
  const EpochFacts& around_;
  int64_t end_ = 0;
  absl::Time now_;
  std::vector<Row> rows_;
  // The mean wait for others of all rows, in each bucket of the rings.
  std::vector<double> mean_waited_;
  // The same, with their waits while a collective runs.
  std::vector<double> mean_in_calls_;
  uint64_t steps_ = 0;
  double seconds_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_JUDGE_H_
