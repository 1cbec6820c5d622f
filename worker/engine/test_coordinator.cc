#include "worker/engine/test_coordinator.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole {

class TestCoordinator::Link final : public ControlLink {
 public:
  Link(TestCoordinator* coordinator, int rank) : coordinator_(coordinator), rank_(rank) {}

  void Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot, uint32_t attempt,
                 uint32_t ordinal) override {
    (void)ordinal;
    const Question question(submission.group, submission.name, disputed_slot, attempt);
    if (submission.op == OpType::kJoin) {
      coordinator_->Heard(rank_, [coordinator = coordinator_, rank = rank_, joins = submission.joins] {
        coordinator->OnJoin(rank, joins);
      });
      return;
    }
    const Statement statement = {submission.signature, absl::StrCat("[", absl::StrJoin(submission.dims, ","), "]"),
                                 submission.joins, submission.disputants};
    coordinator_->Heard(rank_, [coordinator = coordinator_, rank = rank_, question, retired_slot, statement] {
      coordinator->OnNegotiate(rank, question, retired_slot, statement);
    });
  }
  void ReportRetired(uint32_t slot) override {
    coordinator_->Heard(rank_, [coordinator = coordinator_, slot] { coordinator->OnRetired(slot); });
  }

 private:
  TestCoordinator* const coordinator_;
  const int rank_;
};

TestCoordinator::TestCoordinator(int size, uint32_t seed) : heard_(size), told_(size), random_(seed) {
  std::vector<int>& all = groups_[0];
  all.resize(size);
  std::iota(all.begin(), all.end(), 0);
  for (int rank = 0; rank < size; ++rank) links_.push_back(std::make_unique<Link>(this, rank));
}

TestCoordinator::~TestCoordinator() { Stop(); }

ControlLink* TestCoordinator::link(int rank) { return links_[rank].get(); }

void TestCoordinator::Connect(std::vector<Engine*> engines) {
  engines_ = std::move(engines);
  thread_ = std::thread([this] { Run(); });
}

void TestCoordinator::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int TestCoordinator::retired() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return retired_;
}

int TestCoordinator::messages() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return messages_;
}

void TestCoordinator::Heard(int rank, Message message) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++messages_;
  heard_[rank].push_back(std::move(message));
  changed_.notify_all();
}

void TestCoordinator::Tell(int rank, std::function<void(Engine&)> message) {
  told_[rank].push_back(std::move(message));
  changed_.notify_all();
}

void TestCoordinator::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  const int size = static_cast<int>(told_.size());
  while (!stopped_) {
    // Both directions of each rank's conversation; one that has something gets its turn.
    std::vector<int> ready;
    for (int rank = 0; rank < size; ++rank) {
      if (!heard_[rank].empty()) ready.push_back(rank);
      if (!told_[rank].empty()) ready.push_back(size + rank);
    }
    if (ready.empty()) {
      changed_.wait(lock);
      continue;
    }
    const int turn = ready[std::uniform_int_distribution<size_t>(0, ready.size() - 1)(random_)];
    if (turn < size) {
      const Message message = std::move(heard_[turn].front());
      heard_[turn].pop_front();
      message();
      continue;
    }
    const std::function<void(Engine&)> message = std::move(told_[turn - size].front());
    told_[turn - size].pop_front();
    Engine& engine = *engines_[turn - size];
    lock.unlock();
    message(engine);
    engine.OnTableChanged();
    lock.lock();
  }
}

uint32_t TestCoordinator::AddGroup(const std::vector<int>& ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t number = groups_.rbegin()->first + 1;
  groups_[number] = ranks;
  for (int rank = 0; rank < static_cast<int>(told_.size()); ++rank) {
    Tell(rank, [number, ranks](Engine& engine) { engine.table().answers().OnGroupAdded(number, ranks); });
  }
  return number;
}

void TestCoordinator::RemoveGroup(uint32_t group) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (int rank = 0; rank < static_cast<int>(told_.size()); ++rank) {
    Tell(rank, [group](Engine& engine) { engine.table().answers().OnGroupRemoved(group); });
  }
}

void TestCoordinator::OnRetired(uint32_t slot) {
  ++retired_;
  for (auto known = slots_.begin(); known != slots_.end(); ++known) {
    if (known->second == slot) {
      slots_.erase(known);
      return;
    }
  }
}

void TestCoordinator::OnNegotiate(int rank, const Question& question, uint32_t retired_slot, Statement statement) {
  const auto& [group, name, disputed_slot, attempt] = question;
  if (disputed_slot == 0) {
    auto known = slots_.find({group, name});
    if (known != slots_.end() && known->second == retired_slot) {
      slots_.erase(known);
    } else if (known != slots_.end()) {
      return Tell(rank, [group = group, name = name, slot = known->second](Engine& engine) {
        engine.table().answers().OnSlotAssigned(name, group, slot);
      });
    }
  }
  std::map<int, Statement>& statements = asked_[question];
  statements[rank] = std::move(statement);
  if (!IsComplete(question, statements)) return;
  Decide(question, statements);
  asked_.erase(Question(question));
}

void TestCoordinator::OnJoin(int rank, uint32_t joins) {
  joined_[rank] = joins;
  for (auto asked = asked_.begin(); asked != asked_.end();) {
    const auto next = std::next(asked);
    if (IsComplete(asked->first, asked->second)) {
      Decide(asked->first, asked->second);
      asked_.erase(asked);
    }
    asked = next;
  }
}

bool TestCoordinator::IsComplete(const Question& question, const std::map<int, Statement>& statements) {
  const uint32_t disputed_slot = std::get<2>(question);
  if (disputed_slot != 0) return statements.size() == statements.begin()->second.disputants;
  const uint32_t joins = statements.begin()->second.joins;
  const std::vector<int>& ranks = groups_[std::get<0>(question)];
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const auto joined = joined_.find(rank);
    return statements.count(rank) > 0 || (joined != joined_.end() && joined->second >= joins);
  });
}

void TestCoordinator::Decide(const Question& question, const std::map<int, Statement>& statements) {
  const auto& [group, name, disputed_slot, attempt] = question;
  const auto& [first_rank, first] = *statements.begin();
  for (const auto& [rank, statement] : statements) {
    if (statement.signature == first.signature) continue;
    const std::string sentence = absl::StrCat(name, ": rank ", first_rank, " has shape ", first.shape, ", rank ", rank,
                                              " has shape ", statement.shape);
    for (int member : groups_[group]) {
      Tell(member, [name = name, group = group, sentence, slot = disputed_slot, attempt = attempt](Engine& engine) {
        engine.table().answers().OnMismatch({name, group, sentence, slot, attempt, 0, 0});
      });
    }
    return;
  }
  const uint32_t slot = ++last_slot_;
  slots_[{group, name}] = slot;
  std::vector<int> audience = groups_[group];
  if (audience.front() != 0) audience.push_back(0);
  for (int rank : audience) {
    Tell(rank, [name = name, group = group, slot](Engine& engine) {
      engine.table().answers().OnSlotAssigned(name, group, slot);
    });
  }
}

}  // namespace farandole
