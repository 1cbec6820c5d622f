#include "deploy/bench/exercise.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/bench/tile.h"
#include "worker/farandole.h"

namespace farandole::bench {
namespace {

constexpr int kRoot = 0;
constexpr int kWorld = 0;

struct ReleaseArena {
  void operator()(farandole_arena* arena) const { farandole_arena_release(arena); }
};
using ArenaPointer = std::unique_ptr<farandole_arena, ReleaseArena>;

// The memory of a case's tensors: an arena, or ordinary memory of the process, as a framework's, which is not cleared,
// so that each page is first touched by its rank.
class Memory {
 public:
  Memory(const Case& what, ArenaPointer arena) : arena_(std::move(arena)) {
    const size_t bytes = what.count * SizeOf(what.dtype);
    for (int i = 0; i < what.tensors; ++i) {
      if (arena_ != nullptr) {
        tensors_.push_back(static_cast<char*>(farandole_arena_address(arena_.get())) + i * bytes);
        continue;
      }
      own_.emplace_back(new char[std::max<size_t>(bytes, 1)]);
      tensors_.push_back(own_.back().get());
    }
  }
  const std::vector<char*>& tensors() const { return tensors_; }

 private:
  ArenaPointer arena_;
  std::vector<std::unique_ptr<char[]>> own_;
  std::vector<char*> tensors_;
};

// All ranks call it alike. Null where the case wants none.
absl::StatusOr<ArenaPointer> MakeArena(const Case& what) {
  if (!what.in_arena) return ArenaPointer();
  farandole_arena* arena = nullptr;
  const auto bytes = static_cast<int64_t>(what.count * SizeOf(what.dtype)) * what.tensors;
  if (const int code = farandole_arena_create("bench/arena", bytes, kWorld, &arena, nullptr); code != FARANDOLE_OK) {
    return CallStatus(code);
  }
  return ArenaPointer(arena);
}

class Buffers : public Exercise {
 public:
  Buffers(const Case& what, int rank, int size, ArenaPointer arena = nullptr)
      : Exercise(what, rank, size), own_(Tile::OfRank(what.dtype, rank, size)), memory_(what, std::move(arena)) {
    shape_ = static_cast<int64_t>(what.count);
  }

  void Rewrite(uint64_t turn) override {
    for (size_t i = 0; i < memory_.tensors().size(); ++i) own_.Fill(buffer(i), what().count, turn + i);
  }

  absl::Status Step() override {
    handles_.clear();
    for (size_t i = 0; i < memory_.tensors().size(); ++i) {
      handles_.push_back(Submit(i));
      if (handles_.back() < 0) return CallStatus(static_cast<int>(-handles_.back()));
    }
    for (const farandole_handle handle : handles_) {
      if (absl::Status status = Finish(handle); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 protected:
  virtual farandole_handle Submit(size_t tensor) = 0;

  char* buffer(size_t tensor) { return memory_.tensors()[tensor]; }
  const int64_t* shape() const { return &shape_; }
  int dtype() const { return static_cast<int>(what().dtype); }
  // A single tensor goes the way of a synchronous call.
  int64_t wait_ms() const { return what().tensors > 1 ? 0 : -1; }

  // Of all tensors, whose results stand in the buffers.
  size_t CountWrongAgainst(const Tile& expected, uint64_t turn) {
    size_t wrong = 0;
    for (size_t i = 0; i < memory_.tensors().size(); ++i)
      wrong += expected.CountWrong(buffer(i), what().count, turn + i);
    return wrong;
  }

 private:
  const Tile own_;
  const Memory memory_;
  int64_t shape_;
  std::vector<farandole_handle> handles_;
};

class Allreduce : public Buffers {
 public:
  Allreduce(const Case& what, int rank, int size, ArenaPointer arena)
      : Buffers(what, rank, size, std::move(arena)), expected_(Tile::Reduced(what.dtype, what.reduce, size)) {}

  absl::Status Step() override {
    if (what().tensors > 1) return Buffers::Step();
    farandole_handle pending = 0;
    const int code = farandole_allreduce_now(names()[0].c_str(), buffer(0), buffer(0), shape(), 1, dtype(),
                                             static_cast<int>(what().reduce), 1, 1, kWorld, -1, &pending);
    return CallStatus(code);
  }

  size_t CountWrong(uint64_t turn) override { return CountWrongAgainst(expected_, turn); }

 private:
  farandole_handle Submit(size_t tensor) override {
    return farandole_allreduce(names()[tensor].c_str(), buffer(tensor), buffer(tensor), shape(), 1, dtype(),
                               static_cast<int>(what().reduce), 1, 1, kWorld, wait_ms());
  }

  const Tile expected_;
};

class Broadcast : public Buffers {
 public:
  Broadcast(const Case& what, int rank, int size)
      : Buffers(what, rank, size), expected_(Tile::OfRank(what.dtype, kRoot, size)) {}

  size_t CountWrong(uint64_t turn) override { return CountWrongAgainst(expected_, turn); }

 private:
  farandole_handle Submit(size_t tensor) override {
    return farandole_broadcast(names()[tensor].c_str(), buffer(tensor), buffer(tensor), shape(), 1, dtype(), kRoot,
                               kWorld, wait_ms());
  }

  const Tile expected_;
};

class Reducescatter : public Buffers {
 public:
  Reducescatter(const Case& what, int rank, int size)
      : Buffers(what, rank, size),
        expected_(Tile::Reduced(what.dtype, what.reduce, size)),
        part_(what.count / static_cast<size_t>(size)),
        parts_(PartsOf(what, part_), nullptr) {}

  size_t CountWrong(uint64_t turn) override {
    size_t wrong = 0;
    for (size_t i = 0; i < names().size(); ++i)
      wrong += expected_.CountWrong(parts_.tensors()[i], part_, turn + i + part_ * static_cast<size_t>(rank()));
    return wrong;
  }

 private:
  static Case PartsOf(Case what, size_t part) {
    what.count = part;
    return what;
  }

  farandole_handle Submit(size_t tensor) override {
    return farandole_reducescatter(names()[tensor].c_str(), buffer(tensor), parts_.tensors()[tensor], shape(), 1,
                                   dtype(), static_cast<int>(what().reduce), 1, 1, kWorld, wait_ms(), nullptr);
  }

  const Tile expected_;
  // Elements of a rank's part, and the memory of this rank's parts.
  const size_t part_;
  const Memory parts_;
};

// An op whose result is memory of its handle: allgather, alltoall, gather or scatter. A step keeps its handles until
// the next one.
class Rows : public Buffers {
 public:
  Rows(const Case& what, int rank, int size) : Buffers(what, rank, size), piece_(what.count) {
    const bool shares_out = TraitsOf(what.op).rows == OpTraits::Rows::kSharesOut;
    if (shares_out) {
      piece_ /= static_cast<size_t>(size);
      first_ = piece_ * static_cast<size_t>(rank);
    }
    const bool has_root = TraitsOf(what.op).has_root;
    for (int from = 0; from < size; ++from) {
      const bool gives = !has_root || (shares_out ? from : rank) == kRoot;
      if (gives) expected_.push_back(Tile::OfRank(what.dtype, from, size));
    }
  }
  ~Rows() override { Release(); }

  void Rewrite(uint64_t turn) override {
    Release();
    Buffers::Rewrite(turn);
  }

  absl::Status Step() override {
    for (int i = 0; i < what().tensors; ++i) {
      const farandole_handle handle = Submit(static_cast<size_t>(i));
      if (handle < 0) return CallStatus(static_cast<int>(-handle));
      handles_.push_back(handle);
    }
    for (const farandole_handle handle : handles_) {
      if (const int code = farandole_wait(handle, -1); code != FARANDOLE_OK) return CallStatus(code);
    }
    return absl::OkStatus();
  }

  size_t CountWrong(uint64_t turn) override {
    const size_t piece_bytes = piece_ * SizeOf(what().dtype);
    size_t wrong = 0;
    for (size_t i = 0; i < handles_.size(); ++i) {
      void* data = nullptr;
      int64_t bytes = 0;
      const int code = farandole_result(handles_[i], &data, &bytes, nullptr);
      if (code != FARANDOLE_OK || static_cast<size_t>(bytes) != piece_bytes * expected_.size()) {
        wrong += std::max<size_t>(piece_ * expected_.size(), 1);
        continue;
      }
      for (size_t each = 0; each < expected_.size(); ++each) {
        wrong += expected_[each].CountWrong(static_cast<char*>(data) + each * piece_bytes, piece_, turn + i + first_);
      }
    }
    return wrong;
  }

 private:
  farandole_handle Submit(size_t tensor) override {
    const char* const name = names()[tensor].c_str();
    switch (what().op) {
      case OpType::kAlltoall:
        return farandole_alltoall(name, buffer(tensor), shape(), 1, dtype(), nullptr, 0, kWorld, wait_ms());
      case OpType::kGather:
        return farandole_gather(name, buffer(tensor), shape(), 1, dtype(), kRoot, kWorld, wait_ms());
      case OpType::kScatter:
        return farandole_scatter(name, buffer(tensor), shape(), 1, dtype(), kRoot, kWorld, wait_ms());
      default:
        return farandole_allgather(name, buffer(tensor), shape(), 1, dtype(), kWorld, wait_ms(), nullptr);
    }
  }

  void Release() {
    for (const farandole_handle handle : handles_) farandole_release(handle);
    handles_.clear();
  }

  // Elements that come from one rank, the first of them in its contribution, and the contributions of the ranks that
  // give this one some.
  size_t piece_;
  size_t first_ = 0;
  std::vector<Tile> expected_;
  std::vector<farandole_handle> handles_;
};

class Barrier : public Exercise {
 public:
  using Exercise::Exercise;
  void Rewrite(uint64_t) override {}
  absl::Status Step() override { return Finish(farandole_barrier(names()[0].c_str(), kWorld, -1)); }
  size_t CountWrong(uint64_t) override { return 0; }
};

}  // namespace

Exercise::Exercise(const Case& what, int rank, int size) : case_(what), rank_(rank), size_(size) {
  for (int i = 0; i < what.tensors; ++i) names_.push_back(absl::StrCat("bench/", TraitsOf(what.op).name, "/", i));
}

absl::StatusOr<std::unique_ptr<Exercise>> Exercise::Make(const Case& what, int rank, int size) {
  absl::StatusOr<ArenaPointer> arena = MakeArena(what);
  if (!arena.ok()) return arena.status();
  switch (what.op) {
    case OpType::kAllreduce:
      return std::make_unique<Allreduce>(what, rank, size, *std::move(arena));
    case OpType::kReducescatter:
      return std::make_unique<Reducescatter>(what, rank, size);
    case OpType::kAllgather:
    case OpType::kAlltoall:
    case OpType::kGather:
    case OpType::kScatter:
      return std::make_unique<Rows>(what, rank, size);
    case OpType::kBroadcast:
      return std::make_unique<Broadcast>(what, rank, size);
    case OpType::kBarrier:
      return std::make_unique<Barrier>(what, rank, size);
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("there is no measurement of ", TraitsOf(what.op).name));
}

absl::Status CallStatus(int code) {
  if (code == FARANDOLE_OK) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), farandole_last_error());
}

absl::Status Finish(int64_t handle) {
  if (handle < 0) return CallStatus(static_cast<int>(-handle));
  return CallStatus(farandole_finish(handle, -1));
}

}  // namespace farandole::bench
