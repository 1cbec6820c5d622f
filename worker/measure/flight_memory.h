#ifndef FARANDOLE_WORKER_MEASURE_FLIGHT_MEMORY_H_
#define FARANDOLE_WORKER_MEASURE_FLIGHT_MEMORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/measure/flight_page.h"

namespace farandole {

// Memory for a FlightPage, which a launcher and its worker map, or a worker alone. It has no name in any file system
// and goes with the last process that has it. Children of fork(2) do not have it.
class FlightMemory {
 public:
  // For a launcher: memory that another process of this user opens by path().
  //   RESOURCE_EXHAUSTED  the system gives no more
  static absl::StatusOr<std::unique_ptr<FlightMemory>> Create();
  // For a worker: the memory behind a path. If that cannot be opened (the launcher is gone, or in another process
  // namespace), or it is "", the worker's own memory, which ends with it.
  static std::unique_ptr<FlightMemory> Open(const std::string& path);
  ~FlightMemory();
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;

  // Null: the system has no memory, and nothing is to be recorded.
  FlightPage* page() const { return page_; }
  // As long as this process lives: "/proc/PID/fd/N".
  std::string path() const;

 private:
  explicit FlightMemory(int fd);

  const int fd_;
  FlightPage* page_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_FLIGHT_MEMORY_H_
