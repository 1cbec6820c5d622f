#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_FIXTURE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_FIXTURE_H_

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/engine/submissions/test_requests.h"
#include "worker/order/epoch_page.h"

namespace farandole {

// Records the messages: "NAME retired RETIRED disputed SLOT.ATTEMPT ordinal ORDINAL", "retired SLOT".
class RecordedLink final : public ControlLink {
 public:
  void Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot, uint32_t attempt,
                 uint32_t ordinal) override {
    said.push_back(
        submission.name + (retired_slot == 0 ? "" : " retired " + std::to_string(retired_slot)) +
        (disputed_slot == 0 ? "" : " disputed " + std::to_string(disputed_slot) + "." + std::to_string(attempt)) +
        (ordinal == 0 ? "" : " ordinal " + std::to_string(ordinal)));
  }
  void ReportRetired(uint32_t slot) override { said.push_back("retired " + std::to_string(slot)); }
  std::vector<std::string> Take() { return std::exchange(said, {}); }

  std::vector<std::string> said;
};

// Rank 1's table in an epoch of three, with rank 0's end of the page to read what it posts.
class SubmissionFixture : public ::testing::Test {
 protected:
  static constexpr int kSize = 3;

  SubmissionFixture() { bell_.SetAttention(Attention::kUnconcerned); }
  ~SubmissionFixture() override { ::operator delete[](memory_, std::align_val_t(64)); }

  absl::StatusOr<int64_t> Submit(const std::string& name, std::vector<int64_t> shape = {1}, uint32_t group = 0) {
    const TensorView view = {values_, values_, shape};
    Request request;
    request.name = name;
    request.group = group;
    request.tensors = absl::MakeConstSpan(&view, 1);
    return table_.Submit(request);
  }
  // The slots of the posts since then.
  std::vector<uint32_t> Posted() {
    std::vector<uint32_t> slots;
    Post post;
    while (keeper_.ReadPost(1, &post)) slots.push_back(post.slot);
    return slots;
  }
  int64_t Join(int32_t* last) {
    TensorView view;
    const absl::StatusOr<int64_t> handle = table_.Submit(JoinRequest(last, &view));
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *handle : 0;
  }
  // How many submissions were returned, by each join that was posted since.
  std::vector<int64_t> PostedJoins() {
    std::vector<int64_t> returned;
    Post post;
    while (keeper_.ReadPost(1, &post)) {
      if (post.kind == Post::Kind::kJoin) returned.push_back(post.count);
    }
    return returned;
  }
  // "pending", "ok", or the error.
  std::string StateOf(int64_t handle) {
    Submission* submission = table_.BeginWaiting(handle);
    if (submission == nullptr) return "unknown";
    const absl::StatusOr<bool> complete = table_.DoneWaiting(submission, /*release=*/false);
    if (!complete.ok()) return std::string(complete.status().message());
    return *complete ? "ok" : "pending";
  }
  void RunSlot(uint32_t slot) {
    Entry entry;
    entry.items.push_back({slot, 0, 1});
    absl::InlinedVector<Submission*, 2> taken;
    table_.log().Take(entry, 0, &taken);
    ASSERT_NE(taken[0], nullptr);
    table_.log().Complete(taken, absl::OkStatus(), 0, 0);
  }

  float values_[64] = {};
  char* memory_ = new (std::align_val_t(64)) char[EpochPage::Bytes(kSize)]();
  EpochPage keeper_{memory_, 0, kSize};
  EpochPage page_{memory_, 1, kSize};
  Doorbell& bell_ = page_.doorbell();
  RecordedLink link_;
  SubmissionTable table_{
      SubmissionOptions{1, kSize, &page_, &link_, MonotonicNs, nullptr, 0, nullptr, /*most_asked=*/4}};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_FIXTURE_H_
