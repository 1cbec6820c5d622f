#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_COLLECTIVES_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_COLLECTIVES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farandole/client_findings.h"
#include "farandole/wire.h"

/// @file
/// Answers about what a job's tensors cost. Numbers of fields are those of proto/farandole/v1/monitor.proto.
namespace farandole {
inline namespace sdk {
namespace client {

/// A rank that others have waited for.
struct LastArrival {
  int rank = 0;
  /// So many collectives waited for it last.
  uint64_t times = 0;
};

/// The price of one name's collectives since the epoch began, by the clock of each rank for itself: a collective waits
/// from a rank's submission until all ranks have submitted it, then its data moves.
struct CollectiveCost {
  using Microseconds = std::chrono::duration<double, std::micro>;

  std::string name;
  /// The number of its process set; 0: all ranks.
  uint32_t group = 0;
  std::string operation = "allreduce";
  /// Only the enqueueing is timed, and no bandwidth is known.
  bool is_on_gpu = false;
  /// Of the rank that has most.
  uint64_t count = 0;
  /// Of one collective, by the convention of nccl-tests: of an allgather and a gather the whole result, of a scatter
  /// the root's input, of others a rank's input.
  uint64_t bytes = 0;
  /// Of all ranks that have answered, together; so far, where it is not over.
  std::chrono::microseconds waited{0};
  std::chrono::microseconds moving{0};
  /// Of a rank and a collective.
  Microseconds mean_wait{0};
  Microseconds mean_moving{0};
  /// Among the latest collectives.
  std::chrono::microseconds longest_wait{0};
  int longest_wait_rank = 0;
  /// Part of what the ranks have waited for all names, 0 to 100.
  double wait_percent = 0;
  /// 0: not known, as for small ones, whose data travels with the ranks' readiness.
  double algorithm_bytes_per_second = 0;
  double bus_bytes_per_second = 0;
  /// Of the latest collectives, those whose records of all ranks were compared; and the ranks that came last in them by
  /// at least 10 us, the most frequent first, at most 4.
  uint64_t compared = 0;
  std::vector<LastArrival> last;
  /// The rank that has waited least since the epoch began, and how long in the mean. It came last, by and large, where
  /// that is far below `mean_wait`.
  int least_wait_rank = 0;
  Microseconds least_wait{0};
};

/// The price of an epoch's tensors.
struct Collectives {
  uint64_t epoch = 0;
  uint32_t size = 0;
  /// When the ranks were asked. Not set: they were not, and their launchers have read their records when they ended.
  std::optional<Time> asked;
  /// The epoch is.
  bool is_over = false;
  /// How many ranks have told something; of a large epoch at most 128 are asked.
  uint32_t answered = 0;
  /// Names, and those that ranks left out, which have more than 512.
  uint32_t found = 0;
  uint32_t left_out = 0;
  /// Of all ranks and names.
  std::chrono::microseconds waited{0};
  std::chrono::microseconds moving{0};
  /// Those that took the most time first, at most 64.
  std::vector<CollectiveCost> costs;
  /// Ranks that did not answer, and why.
  std::vector<RankFindings> silent;
};

inline void Read(WireReader reader, LastArrival* last) {
  while (reader.Next()) {
    if (reader.field() == 1) last->rank = reader.As<int>();
    if (reader.field() == 2) last->times = reader.As();
  }
}

inline void Read(WireReader reader, CollectiveCost* cost) {
  const auto time = [&reader] { return std::chrono::microseconds(reader.As<int64_t>()); };
  const auto mean = [&reader] { return CollectiveCost::Microseconds(reader.Real()); };
  while (reader.Next()) {
    if (reader.field() == 1) cost->name = reader.Text();
    if (reader.field() == 2) cost->group = reader.As<uint32_t>();
    if (reader.field() == 3) cost->operation = OperationName(reader.As());
    if (reader.field() == 4) cost->is_on_gpu = reader.As() != 0;
    if (reader.field() == 5) cost->count = reader.As();
    if (reader.field() == 6) cost->bytes = reader.As();
    if (reader.field() == 7) cost->waited = time();
    if (reader.field() == 8) cost->moving = time();
    if (reader.field() == 9) cost->mean_wait = mean();
    if (reader.field() == 10) cost->mean_moving = mean();
    if (reader.field() == 11) cost->longest_wait = time();
    if (reader.field() == 12) cost->longest_wait_rank = reader.As<int>();
    if (reader.field() == 13) cost->wait_percent = reader.Real();
    if (reader.field() == 14) cost->algorithm_bytes_per_second = reader.Real();
    if (reader.field() == 15) cost->bus_bytes_per_second = reader.Real();
    if (reader.field() == 16) cost->compared = reader.As();
    if (reader.field() == 17) Read(reader.Message(), &cost->last.emplace_back());
    if (reader.field() == 18) cost->least_wait_rank = reader.As<int>();
    if (reader.field() == 19) cost->least_wait = mean();
  }
}

inline void Read(WireReader reader, Collectives* collectives) {
  while (reader.Next()) {
    if (reader.field() == 1) collectives->epoch = reader.As();
    if (reader.field() == 2) collectives->size = reader.As<uint32_t>();
    if (reader.field() == 3) collectives->asked = TimeOf(reader.As());
    if (reader.field() == 4) collectives->is_over = reader.As() != 0;
    if (reader.field() == 5) collectives->answered = reader.As<uint32_t>();
    if (reader.field() == 6) collectives->found = reader.As<uint32_t>();
    if (reader.field() == 7) collectives->left_out = reader.As<uint32_t>();
    if (reader.field() == 8) collectives->waited = std::chrono::microseconds(reader.As<int64_t>());
    if (reader.field() == 9) collectives->moving = std::chrono::microseconds(reader.As<int64_t>());
    if (reader.field() == 10) Read(reader.Message(), &collectives->costs.emplace_back());
    if (reader.field() == 11) Read(reader.Message(), &collectives->silent.emplace_back());
  }
}

}  // namespace client
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_COLLECTIVES_H_
