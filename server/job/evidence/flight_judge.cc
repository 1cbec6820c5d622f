#include "server/job/evidence/flight_judge.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/op_text.h"
#include "server/job/rules/rank_set.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr size_t kMostWaits = 16;
constexpr size_t kMostWaitsTold = 3;
constexpr size_t kMostRanksTold = 4;

using Tensor = std::pair<uint32_t, absl::string_view>;

bool IsOpen(v1::FlightRecord::State state) {
  return state == v1::FlightRecord::SUBMITTED || state == v1::FlightRecord::STARTED || state == v1::FlightRecord::ENDED;
}

// The submissions of one rank under one name.
struct RankSubmissions {
  uint32_t rank = 0;
  uint32_t latest = 0;  // ordinal
};

// All submissions under one name of a group.
struct NameSubmissions {
  // By rank, ascending: the ranks' records come one after the other.
  absl::InlinedVector<RankSubmissions, 1> of_rank;
  // Not finished, by rank.
  absl::InlinedVector<std::pair<uint32_t, const v1::FlightRecord*>, 1> open;
};

// A collective that is not finished on some rank.
struct Candidate {
  bool misses_nobody = false;
  uint64_t waited_us = 0;
  Tensor tensor;  // its name is one of the records'
  uint32_t ordinal = 0;

  // The most telling one comes first.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::forward_as_tuple(a.misses_nobody, b.waited_us, a.tensor, a.ordinal) <
           std::forward_as_tuple(b.misses_nobody, a.waited_us, b.tensor, b.ordinal);
  }
};

uint64_t WaitedUs(const v1::FlightRecord& record) {
  return record.state() == v1::FlightRecord::ENDED ? record.ended_after_us() : record.age_us();
}

class FlightJudge {
 public:
  FlightJudge(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) : flights_(flights), size_(size) {
    for (const auto& [rank, flight] : flights_) {
      if (rank >= size_) continue;
      for (const v1::FlightRecord& record : flight.records()) Add(rank, flight, record);
      if (IsFull(flight)) full_.Insert(rank);
    }
  }

  FlightFinding Find() const {
    FlightFinding finding;
    for (const Candidate& candidate : Choose()) finding.waits.push_back(Gather(candidate));
    std::vector<std::string> sentences;
    for (const v1::FlightWait& wait : finding.waits) {
      if (sentences.size() < kMostWaitsTold && (wait.missing_size() > 0 || sentences.empty()))
        sentences.push_back(Describe(wait));
    }
    finding.sentence = absl::StrJoin(sentences, "; ");
    return finding;
  }

 private:
  void Add(uint32_t rank, const v1::FlightRecords& flight, const v1::FlightRecord& record) {
    if (record.name() >= static_cast<uint32_t>(flight.names_size()) || record.op() == v1::OP_TYPE_JOIN) return;
    members_[record.group()].Insert(rank);
    NameSubmissions& submissions = submissions_[{record.group(), flight.names(static_cast<int>(record.name()))}];
    if (submissions.of_rank.empty() || submissions.of_rank.back().rank != rank)
      submissions.of_rank.push_back({rank, 0});
    submissions.of_rank.back().latest = std::max(submissions.of_rank.back().latest, record.ordinal());
    if (IsOpen(record.state())) submissions.open.emplace_back(rank, &record);
  }

  // The first kMostWaits of all, in their order. To gather each takes as long as its group has ranks.
  std::vector<Candidate> Choose() const {
    std::vector<Candidate> chosen;
    for (const auto& [tensor, submissions] : submissions_) {
      if (!submissions.open.empty()) AddCandidates(tensor, submissions, AwaitedIn(tensor.first), &chosen);
    }
    absl::c_sort_heap(chosen);
    return chosen;
  }

  // How many of the group's ranks have recorded all that they have submitted.
  size_t AwaitedIn(uint32_t group) const {
    if (group == 0) return size_ - full_.count();
    const RankSet& members = members_.at(group);
    return members.count() - (full_.IsEmpty() ? 0 : full_.CountShared(members));
  }

  // `chosen`: a heap of the first kMostWaits so far, of which the last one is on top.
  void AddCandidates(const Tensor& tensor, const NameSubmissions& submissions, size_t awaited,
                     std::vector<Candidate>* chosen) const {
    absl::InlinedVector<uint32_t, 1> latest;
    for (const RankSubmissions& rank_submissions : submissions.of_rank) {
      if (!full_.Contains(rank_submissions.rank)) latest.push_back(rank_submissions.latest);
    }
    absl::c_sort(latest);
    // By ordinal, of each the longest wait first.
    absl::InlinedVector<std::pair<uint32_t, uint64_t>, 1> waits;
    for (const auto& [rank, record] : submissions.open) waits.emplace_back(record->ordinal(), WaitedUs(*record));
    absl::c_sort(waits, [](const auto& a, const auto& b) {
      return std::make_pair(a.first, b.second) < std::make_pair(b.first, a.second);
    });
    for (size_t i = 0; i < waits.size(); ++i) {
      const auto [ordinal, waited_us] = waits[i];
      if (i > 0 && waits[i - 1].first == ordinal) continue;
      const auto submitted =
          static_cast<size_t>(latest.end() - std::lower_bound(latest.begin(), latest.end(), ordinal));
      const Candidate candidate{submitted >= awaited, waited_us, tensor, ordinal};
      if (chosen->size() == kMostWaits && !(candidate < chosen->front())) continue;
      chosen->push_back(candidate);
      std::push_heap(chosen->begin(), chosen->end());
      if (chosen->size() <= kMostWaits) continue;
      std::pop_heap(chosen->begin(), chosen->end());
      chosen->pop_back();
    }
  }

  v1::FlightWait Gather(const Candidate& candidate) const {
    const auto& [group, name] = candidate.tensor;
    const NameSubmissions& submissions = submissions_.at(candidate.tensor);
    v1::FlightWait wait;
    wait.set_group(group);
    wait.set_name(std::string(name));
    wait.set_ordinal(candidate.ordinal);
    wait.set_waited_us(candidate.waited_us);
    RankSet missing;
    for (uint32_t rank = 0; group == 0 && rank < size_; ++rank) missing.Insert(rank);
    if (group != 0) missing = members_.at(group);
    missing.Remove(full_);
    for (const RankSubmissions& rank_submissions : submissions.of_rank) {
      if (rank_submissions.latest >= candidate.ordinal) missing.Erase(rank_submissions.rank);
    }
    for (const uint32_t rank : missing.Ranks()) wait.add_missing(rank);
    RankSet waiting;
    for (const auto& [rank, record] : submissions.open) {
      if (record->ordinal() != candidate.ordinal) continue;
      wait.set_op(record->op());
      waiting.Insert(rank);
    }
    for (const uint32_t rank : waiting.Ranks()) wait.add_waiting(rank);
    return wait;
  }

  // Whether the rank may have submitted things of which its recorder had no record left.
  static bool IsFull(const v1::FlightRecords& flight) {
    return flight.unrecorded() > 0 &&
           absl::c_all_of(flight.records(), [](const v1::FlightRecord& one) { return IsOpen(one.state()); });
  }

  std::string Describe(const v1::FlightWait& wait) const {
    const std::vector<uint32_t> waiting(wait.waiting().begin(), wait.waiting().end());
    const std::string name = absl::StrCat("'", Plain(wait.name(), 120), "'");
    const std::string where = wait.group() == 0 ? "" : absl::StrCat(" of process set ", wait.group());
    const std::string waits =
        absl::StrCat(ShowRanks(waiting), waiting.size() == 1 ? " waits" : " wait",
                     absl::StrFormat(" since %.1f s", static_cast<double>(wait.waited_us()) / 1e6));
    if (wait.missing_size() == 0) {
      return absl::StrCat("all ranks have submitted ", ShowOp(wait.op()), " ", name, where,
                          ", and it is not finished on ", ShowRanks(waiting),
                          absl::StrFormat(" after %.1f s", static_cast<double>(wait.waited_us()) / 1e6));
    }
    std::vector<std::string> missing;
    for (const uint32_t rank : wait.missing()) {
      if (missing.size() < kMostRanksTold) missing.push_back(absl::StrCat("rank ", rank, " ", LastDeed(rank, wait)));
    }
    const size_t more = static_cast<size_t>(wait.missing_size()) - missing.size();
    if (more > 0) missing.push_back(Count(more, "more rank"));
    const char* const and_have = more > 0 ? " have" : wait.missing_size() == 1 ? " and has" : " and have";
    return absl::StrCat(absl::StrJoin(missing, ", "), and_have, " not submitted ", ShowOp(wait.op()), " ", name, where,
                        ", for which ", waits);
  }

  // "finished 'grad.17' (batch 412) last".
  std::string LastDeed(uint32_t rank, const v1::FlightWait& wait) const {
    const auto found = flights_.find(rank);
    if (found == flights_.end()) return "(of whose last collectives nothing is known)";
    const v1::FlightRecords& flight = found->second;
    const v1::FlightRecord* finished = nullptr;
    const v1::FlightRecord* open = nullptr;
    for (const v1::FlightRecord& record : flight.records()) {
      if (record.name() >= static_cast<uint32_t>(flight.names_size())) continue;
      const std::string& name = flight.names(static_cast<int>(record.name()));
      if (record.state() == v1::FlightRecord::FINISHED && (finished == nullptr || EndedLater(record, *finished)))
        finished = &record;
      if (IsOpen(record.state()) && open == nullptr && (name != wait.name() || record.group() != wait.group()))
        open = &record;
    }
    std::string text =
        finished == nullptr
            ? "has finished nothing"
            : absl::StrCat("finished '", Plain(flight.names(static_cast<int>(finished->name())), 120), "'",
                           finished->batch() == 0 ? "" : absl::StrCat(" (batch ", finished->batch(), ")"), " last");
    if (open != nullptr)
      absl::StrAppend(&text, ", waits in '", Plain(flight.names(static_cast<int>(open->name())), 120), "' itself");
    return text;
  }

  static bool EndedLater(const v1::FlightRecord& a, const v1::FlightRecord& b) {
    const auto ago = [](const v1::FlightRecord& one) {
      return one.age_us() - std::min(one.age_us(), one.ended_after_us());
    };
    return ago(a) <= ago(b);
  }

  const std::map<uint32_t, v1::FlightRecords>& flights_;
  const uint32_t size_;
  // Names are those of `flights_`.
  absl::flat_hash_map<Tensor, NameSubmissions> submissions_;
  absl::flat_hash_map<uint32_t, RankSet> members_;
  RankSet full_;
};

}  // namespace

FlightFinding JudgeFlights(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) {
  return FlightJudge(flights, size).Find();
}

}  // namespace farandole
