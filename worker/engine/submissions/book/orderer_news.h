#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_ORDERER_NEWS_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_ORDERER_NEWS_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace farandole {

// A change for rank 0's orderer.
struct SlotAdded {
  uint32_t slot;
  uint32_t group;
};
struct GroupAdded {
  uint32_t group;
  std::vector<int> ranks;
};
struct GroupRemoved {
  uint32_t group;
};
using OrdererNews = std::variant<SlotAdded, GroupAdded, GroupRemoved>;

// The changes that rank 0's orderer has not taken yet, in their order. Owned by SubmissionBook, whose lock guards all
// but IsEmpty.
class OrdererNewsQueue {
 public:
  // Other ranks have no orderer: they keep nothing.
  explicit OrdererNewsQueue(int rank) : has_orderer_(rank == 0) {}

  void Add(OrdererNews news) {
    if (!has_orderer_) return;
    news_.push_back(std::move(news));
    is_empty_.store(false);
  }
  std::vector<OrdererNews> Take() {
    is_empty_.store(true);
    return std::exchange(news_, {});
  }
  // Any thread.
  bool IsEmpty() const { return is_empty_.load(); }

 private:
  const bool has_orderer_;
  std::vector<OrdererNews> news_;
  std::atomic<bool> is_empty_{true};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_ORDERER_NEWS_H_
