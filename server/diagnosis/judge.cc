#include "server/diagnosis/judge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/plain_text.h"
#include "server/diagnosis/change_point.h"
#include "server/diagnosis/median.h"

namespace farandole {
namespace {

// So many half seconds, and standard errors, are no chance, for any number of ranks that are looked at again and again.
constexpr int kLeastBuckets = 8;
constexpr double kCertain = 6;
// A rank of whose lateness so much is in pauses is not slow all the time.
constexpr double kMostlyPauses = 0.5;
// All ranks wait for so long before they are said to stand still: longer than steps usually take.
constexpr double kStandstill = 2.0;
constexpr double kLeastPause = 1.0;
// NVIDIA's resiliency extension flags what is below three quarters of its own best.
constexpr double kOfBest = 0.75;
// A rank whose waits are less by more than twice its excess of own time waits less because its data takes longer.
constexpr double kLeastOwnPart = 0.5;
// Of what the others lose, in the section that explains it.
constexpr double kExplains = 0.5;

// A rank's gap in a bucket.
struct GapOver {
  double gap = 0;
  double seconds = 0;
  // The others wait, and the rank finishes no step.
  bool has_stopped = false;
};

// Of the pauses of a rank: the longest one in seconds, and the sum of their gaps.
struct Pauses {
  double longest = 0;
  double gaps = 0;
};

// A pause begins and ends within buckets: of the one before those without a step and of the one behind them the gap
// belongs to it.
Pauses PausesIn(const std::vector<GapOver>& buckets) {
  Pauses pauses;
  size_t counted = 0;
  for (size_t begin = 0; begin < buckets.size();) {
    if (!buckets[begin].has_stopped) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < buckets.size() && buckets[end].has_stopped) ++end;
    double length = 0;
    for (size_t bucket = begin == 0 ? 0 : begin - 1; bucket < std::min(end + 1, buckets.size()); ++bucket) {
      const double gap = std::max(0.0, buckets[bucket].gap);
      length += gap * buckets[bucket].seconds;
      // Two pauses may share one.
      if (bucket >= counted) pauses.gaps += gap;
      counted = std::max(counted, bucket + 1);
    }
    pauses.longest = std::max(pauses.longest, length);
    begin = end;
  }
  return pauses;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string ShowMs(double seconds) { return absl::StrFormat("%.*f ms", seconds < 0.01 ? 1 : 0, 1000 * seconds); }

std::string ShowSeconds(double seconds) {
  return seconds < 10 ? absl::StrFormat("%.1f s", seconds) : absl::StrFormat("%.0f s", seconds);
}

// Of ranks that were measured; 0: not known.
template <typename Row>
double LeastOwnAStep(const std::vector<Row>& rows) {
  double least = 0;
  for (const Row& row : rows) {
    if (row.span.steps < kLeastSteps) continue;
    const double own = row.span.own() / static_cast<double>(row.span.steps);
    if (least == 0 || own < least) least = own;
  }
  return least;
}

}  // namespace

const char* CauseName(Cause cause) {
  switch (cause) {
    case Cause::kSlowCompute:
      return "slow compute";
    case Cause::kLate:
      return "late";
    case Cause::kSkipped:
      return "skipped";
    case Cause::kSlowNetwork:
      return "slow network";
    case Cause::kWholeJob:
      return "whole job";
  }
  return "late";
}

Diagnosis Judge::Decide(absl::Time now) {
  Diagnosis diagnosis;
  ReadWindow(now);
  diagnosis.shares = SharesOf();
  diagnosis.least_own_a_step = LeastOwnAStep(rows_);
  if (rows_.size() < 2) return diagnosis;
  ReadMeans();
  if (!JudgeStandstill(&diagnosis)) {
    JudgeRanks(&diagnosis);
    JudgeNetwork(&diagnosis);
    DropExplained(&diagnosis);
    if (diagnosis.blockers.empty()) JudgeWhole(&diagnosis);
  }
  absl::c_stable_sort(diagnosis.blockers, [](const Blocker& a, const Blocker& b) { return a.percent > b.percent; });
  if (diagnosis.blockers.size() > kMostBlockers) diagnosis.blockers.resize(kMostBlockers);
  return diagnosis;
}

void Judge::ReadWindow(absl::Time now) {
  now_ = now;
  end_ = measured_.EndBucket(now);
  rows_.clear();
  if (!measured_.is_kept()) return;
  std::vector<double> steps;
  std::vector<double> seconds;
  for (uint32_t rank = 0; rank < measured_.size(); ++rank) {
    if (!around_.is_present(rank)) continue;
    Row row;
    row.rank = rank;
    row.span = measured_.Sum(rank, end_, kWindow);
    if (row.span.seconds <= 0) continue;
    row.own = row.span.own() / row.span.seconds;
    row.waited = row.span.waited_for_others() / row.span.seconds;
    row.transfer = row.span.waited_in_batch / row.span.seconds;
    steps.push_back(static_cast<double>(row.span.steps));
    seconds.push_back(row.span.seconds);
    rows_.push_back(row);
  }
  steps_ = static_cast<uint64_t>(MedianOf(steps));
  seconds_ = MedianOf(seconds);
  std::vector<double> waited;
  for (const Row& row : rows_) waited.push_back(row.waited);
  // Of many ranks the median of the others is that of all.
  const double median = MedianOf(waited);
  for (Row& row : rows_) {
    const double others = rows_.size() == 2 ? waited[&row == &rows_[0] ? 1 : 0] : median;
    row.gap = others - row.waited;
  }
}

void Judge::ReadMeans() {
  mean_waited_.assign(Measurements::kBuckets, 0);
  mean_in_calls_.assign(Measurements::kBuckets, 0);
  for (size_t back = 0; back < Measurements::kBuckets; ++back) {
    const int64_t bucket = end_ - 1 - static_cast<int64_t>(back);
    double waited = 0;
    double in_calls = 0;
    double seconds = 0;
    for (const Row& row : rows_) {
      const RankSpan span = measured_.In(row.rank, bucket);
      waited += span.waited_for_others();
      in_calls += span.waited;
      seconds += span.seconds;
    }
    mean_waited_[back] = seconds > 0 ? waited / seconds : 0;
    mean_in_calls_[back] = seconds > 0 ? in_calls / seconds : 0;
  }
}

Shares Judge::SharesOf() const {
  Shares shares;
  for (const Row& row : rows_) {
    shares.own += row.own;
    shares.waited += row.waited;
    shares.transfer += row.transfer;
  }
  const double count = std::max<double>(1, static_cast<double>(rows_.size()));
  shares.own /= count;
  shares.waited /= count;
  shares.transfer /= count;
  shares.seconds = seconds_;
  shares.steps = steps_;
  return shares;
}

// Ranks wait, and nothing has come to an end for a while.
bool Judge::JudgeStandstill(Diagnosis* diagnosis) const {
  std::vector<uint32_t> absent;
  size_t waiting = 0;
  size_t running = 0;
  bool is_silent = false;
  for (const Row& row : rows_) {
    const Measurements::Present& present = measured_.present(row.rank);
    // A process that stands still may do so while it waits itself.
    if (present.silent >= kSilent) {
      absent.push_back(row.rank);
      is_silent = true;
    } else if (present.waiting >= kStandstill) {
      ++waiting;
      running += present.running > 0 ? 1 : 0;
    } else if (present.running == 0 && present.waiting == 0) {
      absent.push_back(row.rank);
    } else {
      return false;
    }
  }
  if (waiting == 0 || (running > 0 && !is_silent)) return false;
  if (absent.empty()) {
    BlameSkipped(diagnosis);
  } else if (absent.size() <= Judge::kMostBlockers) {
    BlameAbsent(absent, diagnosis);
  }
  return !diagnosis->blockers.empty();
}

void Judge::BlameAbsent(const std::vector<uint32_t>& absent, Diagnosis* diagnosis) const {
  for (const Row& row : rows_) {
    if (!std::binary_search(absent.begin(), absent.end(), row.rank)) continue;
    double waiting = 0;
    for (const Row& other : rows_) waiting = std::max(waiting, measured_.present(other.rank).waiting);
    Blocker blocker;
    blocker.cause = Cause::kLate;
    blocker.rank = row.rank;
    blocker.steps = steps_;
    blocker.last_steps = row.span.last_steps;
    blocker.lost_seconds_a_minute = 60 * std::max(0.0, row.gap);
    blocker.percent = 100 * std::max(0.0, row.gap) * static_cast<double>(rows_.size() - absent.size()) /
                      static_cast<double>(rows_.size());
    blocker.since = now_ - absl::Seconds(waiting);
    const size_t others = rows_.size() - absent.size();
    const double busy = BusySince(row, waiting);
    blocker.sentence = absl::StrCat(around_.name_rank(row.rank), " keeps ",
                                    others == 1 ? "the other rank" : absl::StrCat(others, " ranks"),
                                    " waiting, now for ", ShowSeconds(waiting), "; ", Activity(row, busy), ": late");
    AddExcuse(row, busy, false, &blocker);
    diagnosis->blockers.push_back(std::move(blocker));
  }
}

// All wait for each other.
void Judge::BlameSkipped(Diagnosis* diagnosis) const {
  std::map<uint32_t, std::vector<uint32_t>> ranks_by_slot;
  for (const Row& row : rows_) ranks_by_slot[measured_.present(row.rank).last_slot].push_back(row.rank);
  if (ranks_by_slot.size() < 2) return;
  const auto most = std::max_element(ranks_by_slot.begin(), ranks_by_slot.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& [slot, ranks] : ranks_by_slot) {
    if (slot == most->first) continue;
    for (const uint32_t rank : ranks) {
      if (diagnosis->blockers.size() == kMostBlockers) return;
      const double waiting = measured_.present(rank).waiting;
      Blocker blocker;
      blocker.cause = Cause::kSkipped;
      blocker.rank = rank;
      blocker.lost_seconds_a_minute = 60;
      blocker.percent = 100;
      blocker.since = now_ - absl::Seconds(waiting);
      blocker.sentence = absl::StrCat(
          around_.name_rank(rank), " waits in ", around_.name_slot(slot), " for ", ShowSeconds(waiting), ", while ",
          most->second.size() == 1 ? around_.name_rank(most->second[0]) : absl::StrCat(most->second.size(), " others"),
          most->second.size() == 1 ? " waits in " : " wait in ", around_.name_slot(most->first),
          ": skipped; it has left a collective out, or takes another branch of the program");
      diagnosis->blockers.push_back(std::move(blocker));
    }
  }
}

void Judge::JudgeRanks(Diagnosis* diagnosis) const {
  std::vector<double> own;
  std::vector<uint32_t> ranks;
  for (const Row& row : rows_) own.push_back(row.own), ranks.push_back(row.rank);
  const MediansBeside medians(std::move(own));
  std::vector<Suspect> suspects;
  double percent = 0;
  for (const Row& row : rows_) {
    if (row.gap < kLeastShare) continue;
    const std::optional<Suspect> suspect = SuspectOf(row, medians.Without(row.own));
    if (!suspect.has_value()) continue;
    percent += suspect->percent;
    suspects.push_back(*suspect);
  }
  // Half of all ranks may be suspects; for each of them all sections and the whole history are read.
  absl::c_stable_sort(suspects, [](const Suspect& a, const Suspect& b) { return a.row->gap > b.row->gap; });
  if (suspects.size() > kMostSuspects) suspects.resize(kMostSuspects);
  if (suspects.empty()) return;
  const SectionMedians sections(measured_.sections(), ranks);
  // Several slow ranks share what the others wait.
  const double most = 100 * SharesOf().waited;
  const double part = percent > most && percent > 0 ? most / percent : 1;
  for (const Suspect& suspect : suspects) {
    diagnosis->blockers.push_back(BlockerOf(suspect, sections));
    diagnosis->blockers.back().percent *= part;
  }
}

std::optional<Judge::Suspect> Judge::SuspectOf(const Row& row, double median) const {
  const Spread spread = SpreadOf(row.rank);
  const double step = steps_ > 0 ? seconds_ / static_cast<double>(steps_) : seconds_;
  const bool is_certain = steps_ >= kLeastSteps && spread.buckets >= kLeastBuckets && spread.certainty >= kCertain;
  const bool pauses = spread.longest_pause >= std::max(kLeastPause, step);
  if (!is_certain && !pauses) return std::nullopt;
  if (row.own - median < kLeastOwnPart * row.gap) return std::nullopt;
  const bool is_steady = is_certain && !(pauses && spread.paused_share >= kMostlyPauses);
  return Suspect{&row, median, 100 * row.gap * (1 - 1 / static_cast<double>(rows_.size())), spread.paused_busy,
                 is_steady};
}

Blocker Judge::BlockerOf(const Suspect& suspect, const SectionMedians& sections) const {
  const Row& row = *suspect.row;
  const bool uses_row = suspect.is_steady || around_.gpu_busy(row.rank).has_value();
  const double busy = uses_row ? Busy(row) : suspect.paused_busy;
  Blocker blocker;
  blocker.rank = row.rank;
  blocker.cause = suspect.is_steady && busy >= kBusy ? Cause::kSlowCompute : Cause::kLate;
  blocker.steps = steps_;
  blocker.last_steps = std::min(row.span.last_steps, steps_);
  blocker.lost_seconds_a_minute = 60 * row.gap;
  blocker.percent = suspect.percent;
  blocker.own_ratio = suspect.median > 0 ? row.own / suspect.median : 0;
  blocker.since = OnsetOfGap(row.rank);
  blocker.sentence =
      absl::StrCat(around_.name_rank(row.rank), " was last in ", blocker.last_steps, " of the last ", blocker.steps,
                   " steps; ", rows_.size() == 2 ? "the other waited " : "the others waited ",
                   absl::StrFormat("%.1f s a minute for it", blocker.lost_seconds_a_minute), "; its own time is ",
                   absl::StrFormat("%.1f x the %s", blocker.own_ratio, rows_.size() == 2 ? "other's" : "median"), ", ",
                   Activity(row, busy), ": ", CauseName(blocker.cause));
  if (blocker.cause == Cause::kLate) AddExcuse(row, busy, suspect.is_steady, &blocker);
  const double least = steps_ > 0 ? kExplains * row.gap * seconds_ / static_cast<double>(steps_) : 0;
  const auto excess = least > 0 ? sections.GreatestExcess(row.rank, least) : std::nullopt;
  if (!excess.has_value()) return blocker;
  blocker.section = Plain(measured_.sections().name(excess->section), 64);
  absl::StrAppend(&blocker.sentence, "; its '", blocker.section, "' section takes ", ShowMs(excess->own),
                  " a step, the ", rows_.size() == 2 ? "other's " : "median ", ShowMs(excess->median));
  return blocker;
}

double Judge::GapIn(uint32_t rank, int64_t bucket) const {
  const RankSpan span = measured_.In(rank, bucket);
  if (span.seconds <= 0) return 0;
  const double count = static_cast<double>(rows_.size());
  const double own = span.waited_for_others() / span.seconds;
  const double all = mean_waited_[static_cast<size_t>(end_ - 1 - bucket)];
  // The mean of the others.
  return (all * count - own) / (count - 1) - own;
}

Judge::Spread Judge::SpreadOf(uint32_t rank) const {
  Spread spread;
  std::vector<GapOver> gaps;
  double sum = 0;
  double squares = 0;
  double own = 0;
  double cpu = 0;
  for (int64_t bucket = std::max<int64_t>(0, end_ - kWindow); bucket < end_; ++bucket) {
    const RankSpan span = measured_.In(rank, bucket);
    if (span.seconds <= 0) continue;
    const double gap = GapIn(rank, bucket);
    sum += gap;
    squares += gap * gap;
    gaps.push_back({gap, span.seconds, gap >= 0.5 && span.steps == 0});
    if (!gaps.back().has_stopped) continue;
    own += span.own();
    cpu += span.cpu;
  }
  spread.buckets = static_cast<int>(gaps.size());
  const Pauses pauses = PausesIn(gaps);
  spread.longest_pause = pauses.longest;
  spread.paused_share = sum > 0 ? pauses.gaps / sum : 0;
  spread.paused_busy = own > 0 ? cpu / own : 0;
  if (spread.buckets < 2) return spread;
  const double mean = sum / spread.buckets;
  const double variance = std::max(1e-6, squares / spread.buckets - mean * mean);
  spread.certainty = mean / std::sqrt(variance / spread.buckets);
  return spread;
}

Judge::Onset Judge::OnsetOf(uint32_t rank, absl::FunctionRef<double(int64_t bucket)> loss_in) const {
  int64_t begin = std::max<int64_t>(0, end_ - static_cast<int64_t>(Measurements::kBuckets));
  while (begin < end_ && measured_.In(rank, begin).seconds <= 0) ++begin;
  std::vector<ShareOver> losses;
  for (int64_t bucket = begin; bucket < end_; ++bucket) losses.push_back({loss_in(bucket)});
  const size_t onset = ChangePoint(losses, 2, kLeastRise);
  return {measured_.TimeOf(begin + static_cast<int64_t>(onset)), onset == 0};
}

absl::Time Judge::OnsetOfGap(uint32_t rank) const {
  const Onset onset = OnsetOf(rank, [&](int64_t bucket) { return GapIn(rank, bucket); });
  return onset.is_oldest ? OnsetInHistory(rank).value_or(onset.at) : onset.at;
}

double Judge::Busy(const Row& row) const {
  if (const std::optional<double> gpu = around_.gpu_busy(row.rank); gpu.has_value()) return *gpu;
  return row.span.own() > 0 ? row.span.cpu / row.span.own() : 0;
}

double Judge::BusySince(const Row& row, double seconds) const {
  if (around_.gpu_busy(row.rank).has_value()) return Busy(row);
  const RankSpan span = measured_.Sum(row.rank, end_, static_cast<int64_t>(2 * seconds));
  return span.own() > 0 ? span.cpu / span.own() : 0;
}

std::string Judge::Activity(const Row& row, double busy) const {
  return absl::StrCat(around_.gpu_busy(row.rank).has_value() ? "GPU" : "CPU", busy >= kBusy ? " busy" : " idle", " (",
                      Percent(busy), ")");
}

void Judge::AddExcuse(const Row& row, double busy, bool is_steady, Blocker* blocker) const {
  const double silent = std::max(row.span.silent, measured_.present(row.rank).silent);
  blocker->excuse = ExcuseOf(silent, busy, is_steady);
  absl::StrAppend(&blocker->sentence, ", ", ExcuseText(blocker->excuse, ShowSeconds(silent), row.rank));
}

// All have become slower than they were in the best ten seconds.
void Judge::JudgeWhole(Diagnosis* diagnosis) const {
  const std::vector<std::pair<int64_t, RollUp>> past = measured_.history().ReadFinest(rows_[0].rank);
  if (past.size() < 3 || steps_ < kLeastSteps || seconds_ <= 0) return;
  // The first ten seconds of an epoch may be more, or less.
  const auto rate_of = [](const RollUp& one) { return one.steps / (std::max<double>(one.tenths, 100) / 10); };
  const auto best = std::max_element(past.begin(), past.end(), [&rate_of](const auto& a, const auto& b) {
    return rate_of(a.second) < rate_of(b.second);
  });
  const double best_rate = rate_of(best->second);
  const double rate = static_cast<double>(steps_) / seconds_;
  if (best_rate <= 0 || rate >= kOfBest * best_rate) return;
  const Shares shares = SharesOf();
  Blocker blocker;
  blocker.cause = Cause::kWholeJob;
  blocker.steps = steps_;
  blocker.percent = 100 * (1 - rate / best_rate);
  blocker.lost_seconds_a_minute = 60 * (1 - rate / best_rate);
  blocker.since = measured_.history().TimeOf(best->first + 1);
  blocker.sentence = absl::StrCat(absl::StrFormat("all ranks make %.1f steps/s, and made %.1f; ", rate, best_rate),
                                  Percent(shares.own), " of the time is the program's own, ", Percent(shares.transfer),
                                  " collectives, ", Percent(shares.waited), " waiting for each other: whole job");
  diagnosis->blockers.push_back(std::move(blocker));
}

}  // namespace farandole
